//! The words of which lines of scripts, and of the helper's protocol, are made.

use std::fmt::Write as _;

/// A line taken apart: words, and `key=value` pairs. What is asked for is taken out; what is left at
/// the end was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    words: Vec<String>,
    pairs: Vec<(String, String)>,
}

/// Why a line cannot be understood.
pub type Reason = String;

impl Arguments {
    /// Takes a line apart.
    #[must_use]
    pub fn new(line: &str) -> Self {
        let mut all = Self { words: Vec::new(), pairs: Vec::new() };
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    all.pairs.push((key.to_owned(), value.to_owned()));
                }
                Some(_) | None => all.words.push(word.to_owned()),
            }
        }
        all
    }

    /// The next word.
    ///
    /// # Errors
    /// There is none; `what` says what it was to be.
    pub fn word(&mut self, what: &str) -> Result<String, Reason> {
        if self.words.is_empty() {
            return Err(format!("{what} is missing"));
        }
        Ok(self.words.remove(0))
    }

    /// The next word, if there is one.
    pub fn next_word(&mut self) -> Option<String> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    /// Whether this word is there.
    pub fn flag(&mut self, word: &str) -> bool {
        let found = self.words.iter().position(|known| known == word);
        found.map(|at| self.words.remove(at)).is_some()
    }

    /// The value of a pair, if it is there.
    pub fn pair(&mut self, key: &str) -> Option<String> {
        let found = self.pairs.iter().position(|(known, _)| known == key);
        found.map(|at| self.pairs.remove(at).1)
    }

    /// The next pair, whatever its key.
    pub fn next_pair(&mut self) -> Option<(String, String)> {
        (!self.pairs.is_empty()).then(|| self.pairs.remove(0))
    }

    /// The value of a pair as `read` understands it, or `otherwise`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read<T>(
        &mut self,
        key: &str,
        otherwise: T,
        read: impl FnOnce(&str) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        match self.pair(key) {
            Some(value) => read(&value).map_err(|why| format!("{key}: {why}")),
            None => Ok(otherwise),
        }
    }

    /// A number of any unsigned type.
    ///
    /// # Errors
    /// It is none, or does not fit.
    pub fn number<T: TryFrom<u64>>(&mut self, key: &str, otherwise: T) -> Result<T, Reason> {
        self.read(key, otherwise, |text| {
            let wide = number(text)?;
            T::try_from(wide).map_err(|_| format!("{text} is too large"))
        })
    }

    /// The same of a pair that must be there.
    ///
    /// # Errors
    /// It is not.
    pub fn required<T: TryFrom<u64> + Default>(&mut self, key: &str) -> Result<T, Reason> {
        if self.pairs.iter().all(|(known, _)| known != key) {
            return Err(format!("{key}= is missing"));
        }
        self.number(key, T::default())
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// The first word or pair that nobody asked for.
    pub fn finish(self) -> Result<(), Reason> {
        if let Some(word) = self.words.first() {
            return Err(format!("{word:?} means nothing here"));
        }
        match self.pairs.first() {
            Some((key, value)) => Err(format!("{key}={value} means nothing here")),
            None => Ok(()),
        }
    }
}

/// A number: decimal or `0x..`, with underscores; `-1` is 2^64 - 1.
///
/// # Errors
/// It is none.
pub fn number(text: &str) -> Result<u64, Reason> {
    let wrong = || format!("{text:?} is no number");
    if let Some(positive) = text.strip_prefix('-') {
        return number(positive).map(u64::wrapping_neg).map_err(|_| wrong());
    }
    let digits = text.replace('_', "");
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| wrong())
}

/// A time: `10ns`, `50us`, `2.5ms`, `1s`; in nanoseconds.
///
/// # Errors
/// It is none.
pub fn time_ns(text: &str) -> Result<u64, Reason> {
    let wrong = || format!("{text:?} is no time (such as 50us, 2.5ms)");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (digits, unit) = text.split_at(unit_at);
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if part.len() > 9 || !part.chars().all(|c| c.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut fraction = 0;
    let mut scale = unit_ns;
    for digit in part.bytes() {
        scale /= 10;
        fraction += u64::from(digit - b'0') * scale;
    }
    whole.checked_mul(unit_ns).and_then(|ns| ns.checked_add(fraction)).ok_or_else(wrong)
}

/// A value that may be named: `17`, `buf`, `buf+8`, `buf-1`. What a name stands for depends on where
/// it is: an address, a key, a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The name, if it has one.
    pub name: Option<String>,
    /// What is added to it, modulo 2^64.
    pub plus: u64,
}

impl Value {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Ok(Self { name: None, plus: number(text)? });
        }
        let end = text.find(['+', '-']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let plus = match rest.strip_prefix('+') {
            Some(more) => number(more)?,
            None if rest.is_empty() => 0,
            None => number(rest)?,
        };
        Ok(Self { name: Some(name.to_owned()), plus })
    }
}

/// Bytes, as lines spell them: `64` counts up from 0, `64:5` from 5, `64*0xaa` is one byte again and
/// again, `x0a0b` is itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// More than any message of a script.
const BYTES_MAX: u64 = 1 << 20;

impl Bytes {
    /// Reads them.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if let Some(hex) = text.strip_prefix('x') {
            return from_hex(hex).map(Self).ok_or_else(|| format!("{text:?} is not hexadecimal"));
        }
        let (length, rest) = match text.find([':', '*']) {
            Some(at) => text.split_at(at),
            None => (text, ":0"),
        };
        let length = number(length)?;
        if length > BYTES_MAX {
            return Err(format!("{length} bytes are more than a line may ask for"));
        }
        let byte = number(&rest[1..])?;
        let byte = u8::try_from(byte).map_err(|_| format!("{byte} is no byte"))?;
        let step = u8::from(rest.starts_with(':'));
        let bytes = std::iter::successors(Some(byte), |last| Some(last.wrapping_add(step)));
        let length = usize::try_from(length).unwrap_or(0);
        Ok(Self(bytes.take(length).collect()))
    }
}

/// Lower-case hexadecimal.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The reverse.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() % 2 != 0 {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let mut line = Arguments::new("post SEND id=7 len=0x10 fence");
        assert_eq!(line.word("verb"), Ok("post".into()));
        assert!(line.flag("fence") && !line.flag("fence"));
        assert_eq!(line.number("id", 0_u64), Ok(7));
        assert_eq!(line.required("len"), Ok(16_u32));
        assert_eq!(line.required::<u32>("at"), Err("at= is missing".into()));
        assert_eq!(line.clone().finish(), Err("\"SEND\" means nothing here".into()));
        assert_eq!(Arguments::new("x=300").number("x", 0_u8), Err("x: 300 is too large".into()));
        assert_eq!(Arguments::new("x=y").finish(), Err("x=y means nothing here".into()));
    }

    #[test]
    fn numbers_times_and_values() {
        assert_eq!(number("1_000"), Ok(1000));
        assert_eq!(number("-1"), Ok(u64::MAX));
        assert_eq!(number("0xff"), Ok(255));
        assert!(number("").is_err() && number("0x").is_err() && number("--1").is_ok());
        assert_eq!(time_ns("2.5ms"), Ok(2_500_000));
        assert_eq!(time_ns("655us"), Ok(655_000));
        assert!(time_ns("5").is_err() && time_ns("5h").is_err() && time_ns("ms").is_err());
        let value = |name: Option<&str>, plus| Ok(Value { name: name.map(Into::into), plus });
        assert_eq!(Value::parse("buf+8"), value(Some("buf"), 8));
        assert_eq!(Value::parse("buf-1"), value(Some("buf"), u64::MAX));
        assert_eq!(Value::parse("-8"), value(None, 8_u64.wrapping_neg()));
        assert!(Value::parse("buf+x").is_err());
    }

    #[test]
    fn bytes_in_four_spellings() {
        assert_eq!(Bytes::parse("3"), Ok(Bytes(vec![0, 1, 2])));
        assert_eq!(Bytes::parse("3:254"), Ok(Bytes(vec![254, 255, 0])));
        assert_eq!(Bytes::parse("2*0xaa"), Ok(Bytes(vec![0xaa, 0xaa])));
        assert_eq!(Bytes::parse("x0a0B"), Ok(Bytes(vec![10, 11])));
        for wrong in ["x0", "xzz", "3:256", "9999999999", "a", "3:"] {
            assert!(Bytes::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(to_hex(&[1, 0xab]), "01ab");
    }
}
