//! `data` and `shape`: what is accepted, with exact values, and what is refused, with its message.

use crate::support::{accepted, assert_refused, bytes_of, refused, with_input, with_member};

#[test]
fn integers_keep_every_digit_and_their_range() {
    assert_eq!(bytes_of("UINT64", "[2]", "[18446744073709551615,0]"), [[0xff; 8], [0; 8]].concat());
    let wide = [i64::MIN, i64::MAX, 9_007_199_254_740_993].map(i64::to_le_bytes).concat();
    assert_eq!(bytes_of("INT64", "[3]", "[-9223372036854775808,9223372036854775807,9007199254740993]"), wide);
    assert_eq!(bytes_of("INT8", "[3]", "[-128,127,-0]"), [0x80, 0x7f, 0]);
    assert_eq!(bytes_of("UINT8", "[2]", "[255,-0]"), [255, 0]);
    assert_eq!(bytes_of("UINT32", "[1]", "[4294967295]"), [255; 4]);
    let misfits = [
        ("INT8", "128"),
        ("INT8", "-129"),
        ("UINT8", "256"),
        ("UINT8", "-1"),
        ("INT16", "32768"),
        ("UINT16", "65536"),
        ("INT32", "2147483648"),
        ("INT32", "3000000000"),
        ("UINT32", "4294967296"),
        ("INT64", "9223372036854775808"),
        ("INT64", "-9223372036854775809"),
        ("UINT64", "18446744073709551616"),
        ("UINT64", "-1"),
        ("UINT64", "100000000000000000000000000000"),
    ];
    for (datatype, value) in misfits {
        let range = format!("{value} is out of range for {datatype}");
        assert_refused(with_input(datatype, "[1]", &format!("[{value}]")), &["input 'X'", "'data'", &range, "at byte"]);
    }
}

#[test]
fn integers_are_written_as_integers() {
    for value in ["1.5", "1.0", "1e2", "NaN", "Infinity"] {
        let told = format!("{value} is not an integer, as INT32 needs");
        assert_refused(with_input("INT32", "[1]", &format!("[{value}]")), &["input 'X'", &told]);
    }
    for (value, got) in [("true", "'true'"), ("null", "'null'"), ("\"1\"", "a string"), ("{}", "an object")] {
        let told = format!("expected a number for INT32, got {got}");
        assert_refused(with_input("INT32", "[1]", &format!("[{value}]")), &["input 'X'", &told]);
    }
}

#[test]
fn booleans() {
    assert_eq!(bytes_of("BOOL", "[4]", "[true,false,1,0]"), [1, 0, 1, 0]);
    for value in ["2", "-1", "1.0", "null", "\"true\"", "tru", "truE"] {
        refused(with_input("BOOL", "[1]", &format!("[{value}]")));
    }
}

#[test]
fn floats_take_integers_and_special_tokens() {
    let floats = [1_f32, -0.0, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
    assert_eq!(bytes_of("FP32", "[4]", "[1,-0.0,Infinity,-Infinity]"), floats);
    let nan = bytes_of("FP32", "[1]", "[NaN]");
    assert!(f32::from_le_bytes(nan.try_into().unwrap()).is_nan());
    assert_eq!(bytes_of("FP16", "[2]", "[-Infinity,1]"), [0x00, 0xfc, 0x00, 0x3c]);
    for value in ["true", "null", "\"1\""] {
        assert_refused(with_input("FP32", "[1]", &format!("[{value}]")), &["input 'X'", "expected a number for FP32"]);
    }
}

#[test]
fn finite_numbers_do_not_become_infinite() {
    let misfits = [("FP32", "1e300"), ("FP32", "3.5e38"), ("FP64", "1e400"), ("FP16", "65520"), ("BF16", "-3.4e38")];
    for (datatype, value) in misfits {
        let told = format!("{value} is out of range for {datatype}");
        assert_refused(with_input(datatype, "[1]", &format!("[{value}]")), &["input 'X'", &told]);
    }
    assert_eq!(bytes_of("FP32", "[1]", "[3.4028235e38]"), f32::MAX.to_le_bytes());
    assert_eq!(bytes_of("FP16", "[1]", "[65519.99]"), [0xff, 0x7b]);
}

#[test]
fn strings() {
    let framed = |elements: &[&[u8]]| {
        let frame = |element: &&[u8]| [&u32::try_from(element.len()).unwrap().to_le_bytes()[..], element].concat();
        elements.iter().map(frame).collect::<Vec<_>>().concat()
    };
    let plain = framed(&[b"a", b"", "b\u{e9}\0\"x".as_bytes()]);
    assert_eq!(bytes_of("BYTES", "[3]", r#"["a","","b\u00e9\u0000\"x"]"#), plain);
    let escapes = framed(&[b"\"\\/\x08\x0c\n\r\t", "\u{1f600}".as_bytes()]);
    assert_eq!(bytes_of("BYTES", "[2]", r#"["\"\\\/\b\f\n\r\t","\ud83d\ude00"]"#), escapes);
    let json = [&b"{\"inputs\":[{\"name\":\"X\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a\xff\xfe\"]}]}"[..]];
    assert_eq!(&accepted(json.concat()).inputs[0].data[..], framed(&[b"a\xff\xfe"]));
    let long = "x\u{1f600}".repeat(2_000_000);
    assert_eq!(bytes_of("BYTES", "[1]", &format!("[\"{long}\"]")), framed(&[long.as_bytes()]));
}

#[test]
fn strings_that_are_none() {
    for (value, got) in [("true", "'true'"), ("null", "'null'"), ("5", "a number"), ("{}", "an object")] {
        let told = format!("expected a string for BYTES, got {got}");
        assert_refused(with_input("BYTES", "[1]", &format!("[{value}]")), &["input 'X'", &told]);
    }
    for lone in [r#"["\ud83d"]"#, r#"["\ude00"]"#, r#"["\ud83dx"]"#, r#"["\ud83d\n"]"#, r#"["\ud83d\u0041"]"#] {
        assert_refused(with_input("BYTES", "[1]", lone), &["input 'X'", "lone surrogate"]);
    }
    for broken in [r#"["\x"]"#, r#"["\u12"]"#, r#"["\u12g4"]"#, "[\"a\nb\"]", "[\"a\0b\"]", "[\"abc"] {
        assert_refused(with_input("BYTES", "[1]", broken), &["input 'X'", "string"]);
    }
}

#[test]
fn nesting_is_flattened() {
    for data in ["[1,2,3,4]", "[[1,2],[3,4]]", "[[[1],[2]],[[3],[4]]]", "[[1,2],3,[[4]]]", " [ [ 1 , 2 ] , [ 3,4 ] ] "]
    {
        assert_eq!(bytes_of("INT8", "[2,2]", data), [1, 2, 3, 4], "{data}");
    }
    for data in [r#"["a","b"]"#, r#"[["a","b"]]"#, r#"[["a"],["b"]]"#] {
        assert_eq!(bytes_of("BYTES", "[2,1]", data), b"\x01\0\0\0a\x01\0\0\0b", "{data}");
    }
    assert_eq!(bytes_of("FP32", "[2,0]", "[[],[]]"), b"");
    assert_eq!(bytes_of("FP32", "[0]", "[]"), b"");
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize, element: &str| format!("{}{element}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(bytes_of("INT64", "[1,1]", &nested(50, "5")), 5_i64.to_le_bytes());
    assert_eq!(bytes_of("BYTES", "[1,1]", &nested(50, "\"a\"")), b"\x01\0\0\0a");
    assert_eq!(bytes_of("INT8", "[1]", &nested(97, "5")), [5]);
    let limit = "JSON nesting depth exceeds maximum allowed limit (100)";
    for (datatype, element) in [("INT64", "5"), ("BYTES", "\"a\""), ("FP32", "5")] {
        assert_refused(with_input(datatype, "[1,1]", &nested(120, element)), &["input 'X'", limit]);
        assert_refused(with_input(datatype, "[1,1]", &nested(98, element)), &[limit]);
    }
    assert_refused(with_member(&format!("\"foo\":{}", nested(100_000, ""))), &[limit]);
    assert_refused(with_member(&format!("\"foo\":{}", "{\"a\":".repeat(100_000))), &[limit]);
    assert_refused("[".repeat(100_000), &["expected an object"]);
    let late = format!(r#"{{"inputs":[{{"data":{},"name":"X","datatype":"INT8","shape":[1]}}]}}"#, nested(120, "1"));
    assert_refused(late, &[limit]);
}

#[test]
fn the_count_must_equal_the_shape() {
    let few = with_input("INT32", "[2,3]", "[1,2,3,4,5]");
    assert_refused(few, &["shape does not match true shape", "'X'", "'m'", "[2,3]", "6 elements", "holds 5"]);
    let many = with_input("FP32", "[2]", "[1,2,3]");
    assert_refused(many, &["Shape does not match true shape of 'data' field", "'X'", "[2]", "2 elements", "holds 3"]);
    assert_refused(with_input("BYTES", "[2]", "[\"a\"]"), &["shape does not match true shape", "holds 1"]);
    refused(with_input("INT32", "[0]", "[1]"));
    refused(with_input("INT32", "[]", "[]"));
}

#[test]
fn shapes() {
    for dim in ["-4", "\"4\"", "1.0", "4.5", "true", "null", "[4]", "9223372036854775808", "NaN", "1e400"] {
        assert_refused(
            with_input("INT32", &format!("[{dim}]"), "[1,2,3,4]"),
            &["'X'", "'shape'", "non-negative integer"],
        );
    }
    assert_refused(with_input("INT32", "4", "[1]"), &["'X'", "'shape'", "expected an array of dims, got a number"]);
    let count = "causes total element count to exceed maximum size of";
    assert_refused(with_input("INT8", "[4294967296,4294967296]", "[1]"), &["'X'", "'m'", count]);
    assert_refused(with_input("INT8", "[4294967296,4294967296,0]", "[]"), &[count]);
    assert_refused(with_input("FP64", "[2305843009213693952]", "[1]"), &["byte size overflow for input 'X'"]);
    // A huge shape with little data is refused without a huge buffer.
    refused(with_input("FP64", "[1152921504606846975]", "[1]"));
}
