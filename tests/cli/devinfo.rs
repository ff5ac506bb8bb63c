//! `devinfo` from outside.

use serde_json::Value;

use super::{Ran, document, run};

fn table<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document["tables"][name].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn lists_the_loopback_device_with_its_addresses() {
    let document = document("--json devinfo");
    let gids = table(&document, "gids");
    let loopback = gids.iter().find(|row| row["gid"] == "127.0.0.1").unwrap();
    assert_eq!(loopback["type"], "RoCE v2");
    let devices = table(&document, "devices");
    let device = devices.iter().find(|row| row["device"] == loopback["device"]).unwrap();
    assert_eq!(device["state"], "PORT_ACTIVE");
    assert_eq!(device["max_mtu"], 4096);
    assert_eq!(device["pkeys"], 1);
    assert!(table(&document, "pkeys").iter().all(|row| row["pkey"] == "0xffff"));
    // Limits and capabilities come when asked for.
    assert!(document["tables"]["limits"].is_null());
}

#[test]
fn tells_limits_and_what_is_absent_when_asked() {
    let document = document("--json devinfo -v -d 127.0.0.1 --profile rxe");
    assert_eq!(table(&document, "devices").len(), 1);
    let limits = table(&document, "limits");
    assert!(limits.iter().all(|row| row["value"].as_u64().unwrap() > 0), "{limits:?}");
    let capabilities = table(&document, "capabilities");
    let here = |key: &str| {
        let row = capabilities.iter().find(|row| row["capability"] == key);
        row.unwrap_or_else(|| panic!("{key} is not told of"))["here"].as_str().unwrap()
    };
    for key in ["rc", "uc", "ud", "xrc", "memory_window_type_2b", "atomic_write", "flush_global"] {
        assert_eq!(here(key), "yes", "{key}");
    }
    for key in ["flush_persistent", "alternate_path", "connection_manager"] {
        assert_eq!(here(key), "no", "{key}");
    }
    let profile = table(&document, "profile");
    let lkey = profile.iter().find(|row| row["point"] == "wrong lkey").unwrap();
    assert_eq!(lkey["here"], "local QP operation error");
}

#[test]
fn an_address_or_interface_that_is_not_here_is_told() {
    for (line, told) in [
        ("devinfo -d 203.0.113.9", "203.0.113.9"),
        ("devinfo -d nosuchinterface", "nosuchinterface"),
    ] {
        let Ran { code, err, .. } = run(line);
        assert_eq!(code, Some(2), "{line}");
        assert!(err.contains(told), "{err}");
    }
}
