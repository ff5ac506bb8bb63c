//! What is wrong with a file that was named as a library. The dynamic linker calls some of them missing,
//! and one that was cut off ends the process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The header of an ELF file of 64 bits (`elf(5)`, `Elf64_Ehdr`), and the places of what is of interest.
const HEADER: usize = 64;
const CLASS: usize = 4;
const DATA: usize = 5;
const MACHINE: usize = 18;
const SEGMENTS: usize = 32;
const SEGMENT_LEN: usize = 54;
const SEGMENT_COUNT: usize = 56;
/// `ELFCLASS64`
const BITS_64: u8 = 2;
/// `ELFDATA2LSB`, `ELFDATA2MSB`
const OWN_DATA: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
/// A program header (`Elf64_Phdr`): type, place in the file, bytes in the file; `PT_LOAD`.
const SEGMENT_OFFSET: usize = 8;
const SEGMENT_BYTES: usize = 32;
const LOAD: u32 = 1;

/// What is wrong with the file at `path`; `None`: nothing that its headers tell, or it is not there.
pub(super) fn fault(path: &Path) -> Option<String> {
    let own = header(Path::new("/proc/self/exe")).and_then(|own| machine(&own));
    judge(&header(path)?, own).or_else(|| {
        let fits = fits(path).unwrap_or(true);
        (!fits).then(|| CUT_OFF.into())
    })
}

const CUT_OFF: &str = "it is no shared library (cut off)";

fn header(path: &Path) -> Option<Vec<u8>> {
    // What is no file may never end.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(HEADER as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn machine(header: &[u8]) -> Option<u16> {
    field(header, MACHINE).map(u16::from_ne_bytes)
}

/// Judges the header of a file for a program of machine `own`.
fn judge(header: &[u8], own: Option<u16>) -> Option<String> {
    if !header.starts_with(b"\x7fELF") {
        return Some("it is no shared library (not an ELF file)".into());
    }
    let (Some(class), Some(data)) = (header.get(CLASS), header.get(DATA)) else {
        return Some(CUT_OFF.into());
    };
    if (*class, *data) != (BITS_64, OWN_DATA) {
        return Some("it is a library for another architecture (word size or byte order)".into());
    }
    match (machine(header), own) {
        (Some(of), Some(own)) if of != own => Some(format!(
            "it is a library for another architecture (ELF machine {of}, and this program's is {own})"
        )),
        _ if header.len() < HEADER => Some(CUT_OFF.into()),
        _ => None,
    }
}

/// Whether the file has all the bytes that are to be loaded.
fn fits(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut header = [0; HEADER];
    file.read_exact(&mut header)?;
    let short = |at| field(&header, at).map_or(0, u16::from_ne_bytes);
    let (segment, count) = (usize::from(short(SEGMENT_LEN)), usize::from(short(SEGMENT_COUNT)));
    let segments = field(&header, SEGMENTS).map_or(0, u64::from_ne_bytes);
    let wanted = (segment * count) as u64;
    if segments.checked_add(wanted).is_none_or(|end| end > len) {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(segments))?;
    let mut table = Vec::new();
    file.take(wanted).read_to_end(&mut table)?;
    let long = |row: &[u8], at| field(row, at).map_or(0, u64::from_ne_bytes);
    Ok(table.chunks_exact(segment.max(1)).all(|row| {
        let loaded = field(row, 0).map(u32::from_ne_bytes) == Some(LOAD);
        let end = long(row, SEGMENT_OFFSET).checked_add(long(row, SEGMENT_BYTES));
        !loaded || end.is_some_and(|end| end <= len)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_judged() {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(b"\x7fELF");
        (header[CLASS], header[DATA]) = (BITS_64, OWN_DATA);
        header[MACHINE..][..2].copy_from_slice(&62_u16.to_ne_bytes());
        let said = |header: &[u8]| judge(header, Some(62)).unwrap_or_default();
        assert_eq!(said(&header), "");
        assert_eq!(judge(&header, None), None);
        let text = judge(&header, Some(183)).unwrap();
        assert!(text.contains("machine 62, and this program's is 183"), "{text}");
        assert!(said(b"#!/bin/sh\n").contains("not an ELF file"));
        assert!(said(b"").contains("not an ELF file"));
        for len in 4..HEADER {
            assert!(said(&header[..len]).contains("cut off"), "{len}");
        }
        header[CLASS] = 1;
        assert!(said(&header).contains("word size"));
    }

    #[test]
    fn a_file_is_judged() {
        let own = Path::new("/proc/self/exe");
        assert_eq!(fault(own), None);
        assert_eq!(fault(Path::new("/no/such/file")), None);
        assert_eq!(fault(Path::new("/dev/zero")), None);
        let file = std::env::temp_dir().join(format!("softrnic-elf-{}", std::process::id()));
        let mut bytes = std::fs::read(own).unwrap();
        bytes.truncate(4096);
        for len in [64, 65, 200, 4096] {
            std::fs::write(&file, &bytes[..len]).unwrap();
            assert!(fault(&file).unwrap().contains("cut off"), "{len}");
        }
        // Headers that say anything else are no reason to fall over.
        for at in SEGMENTS..HEADER {
            let mut bytes = bytes.clone();
            bytes[at] = 0xff;
            std::fs::write(&file, &bytes).unwrap();
            assert!(fault(&file).is_none_or(|text| text.contains("cut off")), "{at}");
        }
        std::fs::remove_file(file).unwrap();
    }
}
