"""Mutant schemata: many mutants in one build, of which an environment variable chooses one when the tests run.

Each function that has mutants gets a copy of its body for each of them:

  fn f(a: u8) -> u8 { if crate::schemata::is(17) { a * 1 } else { a + 1 } }

What cannot be written so (a body whose type has no name, a value in a constant) does not build; `plant` leaves it out
and it must be judged in a build of its own. What the compiler computes is computed without mutants.
"""
import collections, json, re, subprocess

CHOICE = "SOFTRNIC_MUTANT"
# Constant functions ask too, by what only this crate is allowed to use of the unfinished library.
BOOTSTRAP = "softrnic_model"
CHOOSER = """
#[doc(hidden)]
pub mod schemata {
    extern crate std;
    static CHOSEN: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(u32::MAX);
    const fn never(_: u32) -> bool { false }
    fn at_run_time(number: u32) -> bool {
        let chosen = CHOSEN.load(core::sync::atomic::Ordering::Relaxed);
        if chosen == u32::MAX { ask(number) } else { chosen == number }
    }
    #[cold]
    fn ask(number: u32) -> bool {
        let chosen = std::env::var("%s").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        CHOSEN.store(chosen, core::sync::atomic::Ordering::Relaxed);
        chosen == number
    }
    #[inline]
    pub const fn is(number: u32) -> bool {
        core::intrinsics::const_eval_select((number,), never, at_run_time)
    }
}
""" % CHOICE
FEATURES = "#![feature(core_intrinsics, const_eval_select)]\n#![allow(internal_features)]\n"


def offset(lines, place):
    """Where a place (line and column from 1, columns in characters) is in the text of these lines."""
    return sum(len(line) for line in lines[:place["line"] - 1]) + place["column"] - 1


def body(text, start, end):
    """Begin and end of what is between the braces of the function at `start..end`, or None."""
    token = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'|[\[\](){}]", re.S)
    depth = 0
    for match in token.finditer(text, start, end):
        if match[0] in "([":
            depth += 1
        elif match[0] in ")]":
            depth -= 1
        elif match[0] == "{" and depth == 0:
            return (match.end(), end - 1) if text[end - 1] == "}" else None
    return None


def rewrite(text, mutants):
    """Text with the mutants [(number, mutant)] planted; the numbers that are."""
    lines = text.splitlines(keepends=True)
    functions = collections.defaultdict(list)
    for number, mutant in mutants:
        if mutant["function"]:
            span = mutant["function"]["span"]
            functions[offset(lines, span["start"]), offset(lines, span["end"])].append((number, mutant))
    planted, done_from = [], len(text)
    # From the end, so that what is before keeps its place. A function around another of these is left out.
    for (start, end), here in sorted(functions.items(), reverse=True):
        inside = body(text, start, end)
        if inside is None or end > done_from:
            continue
        begin, stop = inside
        original, copies = text[begin:stop], {}
        for number, mutant in here:
            at, to = (offset(lines, mutant["span"][side]) for side in ("start", "end"))
            if begin <= at <= to <= stop:
                copies[number] = f"{text[begin:at]}{mutant['replacement']} {text[to:stop]}"
        if copies:
            # The marks tell whose fault it is when it does not build.
            chain = [f"{mark(number)} if crate::schemata::is({number}) {{{copy}\n}} else" for number, copy in copies.items()]
            text = f"{text[:begin]} {' '.join(chain)} {mark(*copies)} {{{original}}} {mark()} {text[stop:]}"
            planted += copies
            done_from = start
    return text, planted


def mark(*numbers):
    return f"/*<{' '.join(map(str, numbers))}>*/"


def marked(text, byte):
    """The mutants to which a byte of the text belongs."""
    before = text.encode()[:byte].decode(errors="replace")
    marks = re.findall(r"/\*<([\d ]*)>\*/", before)
    return set(map(int, marks[-1].split())) if marks else set()


def messages(output, level):
    """What the compiler says at a level, from cargo's `--message-format=json`."""
    for line in output.splitlines():
        message = json.loads(line).get("message") if line.startswith("{") else None
        if isinstance(message, dict) and message["level"] == level:
            yield message


def errors(tree, env, checks):
    """What the first of the cargo commands that fails does not accept: [(error, [(file, byte), ...])].

    The first place of an error is the most telling."""
    for check in checks:
        out = subprocess.run([*check, "--message-format=json"], cwd=tree, env=env, capture_output=True, text=True)
        if out.returncode == 0:
            continue
        found = []
        for message in messages(out.stdout, "error"):
            spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
            if spans:
                found.append((message["message"], [(span["file_name"], span["byte_start"]) for span in spans]))
        if not found:
            raise SystemExit(out.stderr[-3000:])
        return found
    return []


def plant(tree, mutants, env, checks, library):
    """Plants mutants {number: mutant}: the numbers of those that are in the tree now, and the files as they were.

    `checks` are the cargo commands that tell errors, `library` is the root of the crate.
    """
    originals = {name: (tree / name).read_text() for name in {library, *(mutant["file"] for mutant in mutants.values())}}
    left_out = set()
    while True:
        planted, texts = set(), {}
        for name, original in originals.items():
            text, numbers = rewrite(original, [(number, mutant) for number, mutant in mutants.items()
                                               if mutant["file"] == name and number not in left_out])
            if name == library:
                text = re.sub(r"^(#!\[no_std\])", FEATURES + r"\1", text, count=1, flags=re.M) + CHOOSER
            (tree / name).write_text(text)
            texts[name] = text
            planted.update(numbers)
        told, guilty = errors(tree, env, checks), set()
        if not told:
            return planted, originals
        for message, places in told:
            of = (marked(texts[name], byte) for name, byte in places if name in texts)
            guilty |= next((numbers for numbers in of if numbers), set())
        if not guilty:
            restore(tree, originals)
            raise SystemExit(f"whose fault this is cannot be told: {told}")
        left_out |= guilty


def restore(tree, originals):
    """Writes the files as they were."""
    for name, original in originals.items():
        (tree / name).write_text(original)


def choosing(env, number):
    """An environment in which the tests see one mutant."""
    return dict(env, **{CHOICE: str(number)})
