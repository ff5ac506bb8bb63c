//! What commands print: one [`Report`] of facts, tables and notes, shown as text for people or as one
//! JSON document for programs.

use std::fmt;
use std::io::{self, Write};

use comfy_table::{CellAlignment, LineStyle, TableStyle};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Version of the JSON documents' layout. It rises when a key changes or goes, not when one comes.
const JSON_FORMAT: u32 = 1;

/// One cell or fact.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A word or a name.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A measured number; text shows about four significant digits, JSON all of them.
    Number(f64),
    /// Not known, or without meaning here: `-` in text, `null` in JSON.
    Missing,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) if number.is_finite() => {
                let decimals = match number.abs() {
                    0.0 => 0,
                    n if n < 10.0 => 3,
                    n if n < 100.0 => 2,
                    n if n < 1000.0 => 1,
                    _ => 0,
                };
                write!(f, "{number:.decimals$}")
            }
            Self::Number(_) | Self::Missing => f.write_str("-"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            // What is not finite becomes null.
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Missing => serializer.serialize_none(),
        }
    }
}

/// How a column is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its key in JSON; a unit comes last, as in `average_mb_s`.
    pub(crate) key: &'static str,
    /// Its head in text.
    pub(crate) title: &'static str,
}

/// Rows under named columns.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    columns: &'static [Column; COLUMNS],
    rows: Vec<[Value; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table without rows.
    pub(crate) const fn new(columns: &'static [Column; COLUMNS]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: [Value; COLUMNS]) {
        self.rows.push(row);
    }
}

/// A [`Table`] whose width is no longer a type.
#[derive(Debug)]
struct Grid {
    name: &'static str,
    columns: &'static [Column],
    rows: Vec<Vec<Value>>,
}

/// A named value of a [`Report`].
#[derive(Debug)]
struct Fact {
    key: &'static str,
    title: &'static str,
    value: Value,
}

/// All that one command has to say, in the order in which it was added.
#[derive(Debug)]
pub(crate) struct Report {
    command: &'static str,
    facts: Vec<Fact>,
    tables: Vec<Grid>,
    notes: Vec<String>,
}

impl Report {
    /// An empty report of `command`, spelled as on the command line.
    pub(crate) const fn new(command: &'static str) -> Self {
        Self { command, facts: Vec::new(), tables: Vec::new(), notes: Vec::new() }
    }

    /// Adds a single value: `key` in JSON, `title` in text.
    #[must_use]
    pub(crate) fn fact(
        mut self,
        key: &'static str,
        title: &'static str,
        value: impl Into<Value>,
    ) -> Self {
        self.facts.push(Fact { key, title, value: value.into() });
        self
    }

    /// Adds a table, `name` being its key in JSON.
    #[must_use]
    pub(crate) fn table<const COLUMNS: usize>(
        mut self,
        name: &'static str,
        table: Table<COLUMNS>,
    ) -> Self {
        let rows = table.rows.into_iter().map(Vec::from).collect();
        self.tables.push(Grid { name, columns: table.columns, rows });
        self
    }

    /// Adds a sentence for the reader.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Writes the report as text or as one line of JSON.
    pub(crate) fn write(&self, out: &mut dyn Write, json: bool) -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut *out, self)?;
            return writeln!(out);
        }
        write!(out, "{self}")
    }

    /// [`Report::write`] to standard output.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        self.write(&mut out, json)?;
        out.flush()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.facts.iter().map(|fact| fact.title.chars().count()).max().unwrap_or(0);
        for Fact { title, value, .. } in &self.facts {
            writeln!(f, "{title:width$}  {value}")?;
        }
        let mut blank = !self.facts.is_empty();
        // A table without rows is nothing to look at.
        for grid in self.tables.iter().filter(|grid| !grid.rows.is_empty()) {
            if std::mem::replace(&mut blank, true) {
                writeln!(f)?;
            }
            writeln!(f, "{grid}")?;
        }
        if blank && !self.notes.is_empty() {
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let rule = LineStyle::none().fill('-').junction('-');
        table.load_style(TableStyle::new().header_separator(rule));
        table.set_header(self.columns.iter().map(|column| column.title));
        for row in &self.rows {
            table.add_row(row.iter().map(Value::to_string));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 1));
            let words = self.rows.iter().any(|row| matches!(row.get(index), Some(Value::Text(_))));
            let side = if words { CellAlignment::Left } else { CellAlignment::Right };
            column.set_cell_alignment(side);
        }
        f.write_str(&table.trim_fmt())
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = Object(self.facts.iter().map(|fact| (fact.key, &fact.value)));
        let tables = Object(self.tables.iter().map(|grid| (grid.name, grid)));
        let mut document = serializer.serialize_map(Some(5))?;
        document.serialize_entry("format", &JSON_FORMAT)?;
        document.serialize_entry("command", self.command)?;
        document.serialize_entry("facts", &facts)?;
        document.serialize_entry("tables", &tables)?;
        document.serialize_entry("notes", &self.notes)?;
        document.end()
    }
}

impl Serialize for Grid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = self.columns.iter().map(|column| column.key);
        serializer.collect_seq(self.rows.iter().map(|row| Object(keys.clone().zip(row))))
    }
}

/// A JSON object whose keys keep their order.
struct Object<I>(I);

impl<'a, V: Serialize, I: Iterator<Item = (&'a str, V)> + Clone> Serialize for Object<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { key: "name", title: "name" },
        Column { key: "bytes", title: "#bytes" },
        Column { key: "average_mb_s", title: "average [MB/s]" },
    ];

    fn report() -> Report {
        let mut table = Table::new(&COLUMNS);
        table.push(["a".into(), 64u64.into(), 1234.56.into()]);
        table.push(["longer".into(), 4096u64.into(), Value::Missing]);
        let mut report = Report::new("bench test")
            .fact("cores", "cores", 2u64)
            .fact("state", "state of the cores", "near")
            .table("results", table);
        report.note("one note");
        report
    }

    #[test]
    fn text_is_aligned_and_ends_no_line_with_a_blank() {
        let text = report().to_string();
        let expected = "\
cores               2
state of the cores  near

name    #bytes  average [MB/s]
-------------------------------
a           64            1235
longer    4096               -

one note
";
        assert_eq!(text, expected);
    }

    #[test]
    fn json_has_the_same_rows_in_the_same_order() {
        let mut out = Vec::new();
        report().write(&mut out, true).unwrap();
        let expected = concat!(
            r#"{"format":1,"command":"bench test","facts":{"cores":2,"state":"near"},"#,
            r#""tables":{"results":[{"name":"a","bytes":64,"average_mb_s":1234.56},"#,
            r#"{"name":"longer","bytes":4096,"average_mb_s":null}]},"notes":["one note"]}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn numbers_keep_four_digits() {
        for (number, text) in [
            (0.0, "0"),
            (0.0651, "0.065"),
            (9.9999, "10.000"),
            (28.04, "28.04"),
            (512.34, "512.3"),
            (19_876.5, "19876"),
            (-2.5, "-2.500"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(Value::Number(number).to_string(), text);
        }
    }

    #[test]
    fn what_is_not_finite_is_null_in_json() {
        assert_eq!(serde_json::to_string(&Value::Number(f64::NAN)).unwrap(), "null");
    }
}
