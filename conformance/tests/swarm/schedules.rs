//! Schedules in files.

use softrnic_conformance::swarm::{Plan, Schedule, Step, run};

fn some() -> Schedule {
    let plan = Plan::drawn(3, 2);
    let steps = Step::drawn(&plan).take(40).collect();
    Schedule { plan, steps }
}

#[test]
fn a_schedule_survives_its_text_and_runs_as_before() {
    let schedule = some();
    let again = Schedule::parse(&schedule.to_text().unwrap()).unwrap();
    assert_eq!(again, schedule);
    assert_eq!(run(&again.plan, &again.steps), run(&schedule.plan, &schedule.steps));
}

#[test]
fn bad_texts_give_line_and_reason() {
    let text = some().to_text().unwrap();
    let says = |text: &str, what: &str| {
        let reason = Schedule::parse(text).unwrap_err();
        assert!(reason.contains(what), "{reason}");
    };
    says("", "EOF while parsing a value at line 1 column 0");
    says(&text.replacen("\"seed\": 3", "\"seed\": \"three\"", 1), "line 3");
    says(&text.replacen("\"op\": \"", "\"op\": \"Un", 1), "unknown variant `Un");
    says(&text.replacen("\"hosts\": 2", "\"hosts\": 0", 1), "hosts is 0; it may be 1 to 10000");
    says(&text.replacen("\"mtu_shift\"", "\"mtu_shaft\"", 1), "missing field `mtu_shift`");
    says(&text[..text.len() / 2], "at line");
}
