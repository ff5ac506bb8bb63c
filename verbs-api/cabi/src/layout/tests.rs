//! Compares the tables with what a C compiler makes of the installed headers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use softrnic_ffi::Layout;

use super::{ATTRIBUTES, CONTEXT, OBJECTS, WORK};
use crate::kernel::KERNEL;
use crate::rdmacm::layout::RDMACM;

/// What version 44 of the headers does not have: fields at the end, and operations in front.
const NEWER: [(&str, &[&str]); 3] = [
    ("ibv_port_attr", &["active_speed_ex"]),
    ("ibv_qp_ex", &["wr_flush"]),
    (
        "verbs_context",
        &[
            "free_buf",
            "alloc_buf",
            "dm_export_dmabuf_fd",
            "reg_mr_ex",
            "dealloc_dmah",
            "alloc_dmah",
        ],
    ),
];
/// How large those structs are there.
const OLDER_SIZE: [(&str, usize); 3] =
    [("ibv_port_attr", 52), ("ibv_qp_ex", 352), ("verbs_context", 648)];
/// What comes in front moves the rest.
const OLDER_SHIFT: usize = 48;

fn is_newer(layout: &str, field: &str) -> bool {
    NEWER.iter().any(|(name, fields)| *name == layout && fields.contains(&field))
}

fn tables() -> impl Iterator<Item = &'static Layout> {
    [OBJECTS, ATTRIBUTES, CONTEXT, WORK, KERNEL, RDMACM].into_iter().flatten()
}

/// What the headers say: size of each struct, and offset and size of each field. `None`: they do not
/// have all the fields, or there is no compiler.
fn of_headers(with_newer: bool) -> Option<BTreeMap<String, (usize, usize)>> {
    let mut program = String::from(
        "#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n#include <rdma/ib_user_verbs.h>\n\
         #include <rdma/ib_user_sa.h>\n#include <rdma/rdma_cma.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for Layout { name, fields, .. } in tables() {
        writeln!(program, "printf(\"{name} 0 %zu\\n\", sizeof(struct {name}));").unwrap();
        for (field, ..) in fields.iter().filter(|(field, ..)| with_newer || !is_newer(name, field))
        {
            writeln!(
                program,
                "printf(\"{name}.{field} %zu %zu\\n\", offsetof(struct {name}, {field}), \
                 sizeof(((struct {name} *)0)->{field}));"
            )
            .unwrap();
        }
    }
    program.push_str("return 0; }\n");
    let directory = std::env::temp_dir().join(format!("softrnic-layout-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (source, binary) = (directory.join("layout.c"), directory.join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().ok();
    let output = compiled
        .filter(|compiled| compiled.status.success())
        .map(|_| Command::new(&binary).output().unwrap());
    std::fs::remove_dir_all(&directory).unwrap();
    let text = String::from_utf8(output?.stdout).unwrap();
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_owned();
        let mut number = || words.next().unwrap().parse().unwrap();
        (name, (number(), number()))
    };
    Some(text.lines().map(entry).collect())
}

#[test]
fn tables_are_what_the_headers_say() {
    let newest = of_headers(true);
    let is_older = newest.is_none();
    let Some(headers) = newest.or_else(|| of_headers(false)) else {
        let installed = std::path::Path::new("/usr/include/rdma/rdma_cma.h").exists();
        assert!(!installed, "the headers are installed, and the program does not compile");
        softrnic_testing::not_installed("there are no headers (libibverbs-dev, librdmacm-dev)");
        return;
    };
    let mut checked = 0;
    for Layout { name, size, fields } in tables() {
        let older = OLDER_SIZE.iter().find(|(of, _)| is_older && of == name);
        let (_, said) = headers[*name];
        assert_eq!(older.map_or(*size, |(_, size)| *size), said, "size of {name}");
        let shift = if is_older && *name == "verbs_context" { OLDER_SHIFT } else { 0 };
        for (field, offset, size) in *fields {
            if is_older && is_newer(name, field) {
                continue;
            }
            let (said_offset, said_size) = headers[&format!("{name}.{field}")];
            assert_eq!(*offset - shift, said_offset, "offset of {name}.{field}");
            // Several unused slots are one field here, and what ends a newer context is larger.
            if !field.starts_with("_compat") {
                assert_eq!(*size, said_size, "size of {name}.{field}");
            }
            checked += 1;
        }
    }
    assert!(checked > 400, "only {checked} fields were compared");
}
