use super::*;

#[test]
fn lines_are_read() {
    let script = parse(
        "
        # a comment
        qp rc
        50us  < WRITE_ONLY psn=0 data=4*0xaa ack   # and why
              > ACK psn=0 msn=1
        +2ms  > SEND_ONLY psn=0
              done RECV id=1 len=4
        ",
    )
    .unwrap();
    assert_eq!(script.steps.len(), 5);
    assert_eq!((script.steps[1].line, script.steps[1].at), (4, Some(At::Since(50_000))));
    assert_eq!(script.steps[3].at, Some(At::After(2_000_000)));
    assert!(matches!(&script.steps[4].act, Act::Done(done) if done.id == Some(1)));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, line, reason) in [
        ("", 1, "the script says nothing"),
        ("qp rc\n< FLY", 2, "\"FLY\" is no packet"),
        ("< SEND_ONLY psn=x", 1, "psn: \"x\" is no number"),
        ("< SEND_ONLY colour=1", 1, "colour: means nothing here"),
        ("< SEND_ONLY loudly", 1, "\"loudly\" means nothing here"),
        ("\n\n5h > ACK", 3, "\"5h\" is no time (such as 50us, 2.5ms)"),
        ("done RECV status=WR_FLUSH_ERR", 1, "the opcode of a failed completion means nothing"),
        ("done FLY", 1, "\"FLY\" is not known"),
        ("in HEAVEN", 1, "\"HEAVEN\" is not known"),
        ("event RAIN", 1, "\"RAIN\" is no event"),
        ("refused never poll", 1, "\"never\" is no errno"),
        ("needs WINGS", 1, "\"WINGS\" is not known"),
        ("dance", 1, "\"dance\" is no command"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.reason.as_str()), (line, reason), "{text}");
    }
}
