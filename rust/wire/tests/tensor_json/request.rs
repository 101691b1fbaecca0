//! The request around them: its members, their parameters, and JSON that is none.

use charonia_wire::call::Parameter;
use charonia_wire::datatype::DataType;

use crate::support::{accepted, assert_refused, refused, with_input, with_member};

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert!(accepted("\u{feff}{\"inputs\":[]}").inputs.is_empty());
}

#[test]
fn a_whole_request() {
    let call = accepted(
        r#" { "id" : "abc", "parameters": {"priority": 3, "note": "hé", "ratio": 0.5, "on": true, "binary_data_output": true},
             "inputs": [{"name": "A", "shape": [1, 2], "datatype": "INT32", "data": [1, -2], "parameters": {"p": 1}},
                        {"name": "B", "shape": [], "datatype": "FP64", "data": [0.1]}],
             "outputs": [{"name": "Y", "parameters": {"classification": 2, "binary_data": false, "q": "r"}}, {"name": "Z"}] } "#,
    );
    assert_eq!((&*call.model_name, &*call.model_version, &*call.id), ("m", "7", "abc"));
    assert!(call.binary_default);
    let expected = [
        ("priority", Parameter::Int(3)),
        ("note", Parameter::String("hé".into())),
        ("ratio", Parameter::Double(0.5)),
        ("on", Parameter::Bool(true)),
    ];
    assert_eq!(call.parameters, expected.map(|(key, value)| (key.to_owned(), value)));
    let [a, b] = &call.inputs[..] else { panic!("two inputs") };
    assert_eq!((&*a.name, a.datatype, &a.shape[..]), ("A", DataType::Int32, &[1, 2][..]));
    assert_eq!(&a.data[..], [1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(a.parameters, [("p".to_owned(), Parameter::Int(1))]);
    assert_eq!((b.datatype, b.shape.len(), &b.data[..]), (DataType::Fp64, 0, &0.1_f64.to_le_bytes()[..]));
    let [y, z] = &call.outputs[..] else { panic!("two outputs") };
    assert_eq!((&*y.name, y.classification, y.binary), ("Y", 2, false));
    assert_eq!(y.parameters, [("q".to_owned(), Parameter::String("r".into()))]);
    assert_eq!((&*z.name, z.classification, z.binary), ("Z", 0, false));
}

#[test]
fn members_may_come_in_any_order() {
    let orders = [
        r#"{"inputs":[{"data":[[1],[2]],"name":"X","shape":[2,1],"datatype":"UINT16"}]}"#,
        r#"{"inputs":[{"data":[1,2],"datatype":"UINT16","shape":[2,1],"name":"X"}]}"#,
        r#"{"inputs":[{"datatype":"UINT16","data":[1,2],"shape":[2,1],"name":"X"}]}"#,
    ];
    for json in orders {
        assert_eq!(&accepted(json).inputs[0].data[..], [1, 0, 2, 0], "{json}");
    }
}

#[test]
fn unknown_members_are_skipped() {
    let call = accepted(
        r#"{"foo":{"a":[1,{"b":null}],"c":"\u00e9"},"inputs":[{"name":"X","datatype":"INT8","shape":[1],"data":[1],
            "bar":[true,false,1e9,NaN]}],"outputs":[{"name":"Y","baz":1}]}"#,
    );
    assert_eq!(call.inputs.len(), 1);
    assert_eq!(call.outputs.len(), 1);
}

#[test]
fn of_equal_members_the_first_counts() {
    let json = r#"{"inputs":[{"name":"X","name":"W","datatype":"INT8","datatype":"FP32","shape":[1],"shape":[2],
        "data":[1],"data":"no"}],"inputs":5,"id":"a","id":"b","parameters":{"k":1,"k":2},"parameters":{"z":1}}"#;
    let call = accepted(json);
    assert_eq!((&*call.inputs[0].name, &*call.id, &call.inputs[0].data[..]), ("X", "a", &[1_u8][..]));
    assert_eq!(call.parameters, [("k".to_owned(), Parameter::Int(1))]);
}

#[test]
fn missing_and_wrong_members_are_named() {
    assert_refused("{}", &["'inputs' is missing", "model 'm'"]);
    assert_refused("", &["expected an object with 'inputs', got the end", "at byte 0"]);
    assert_refused("[]", &["expected an object with 'inputs', got an array"]);
    assert_refused("abc", &["got 'abc'", "at byte 0"]);
    assert_refused(r#"{"inputs":{}}"#, &["'inputs'", "expected an array, got an object", "at byte 10"]);
    assert_refused(r#"{"inputs":[5]}"#, &["inputs[0]", "expected an object, got a number"]);
    let data = r#""shape":[1],"datatype":"INT8","data":[1]"#;
    assert_refused(format!(r#"{{"inputs":[{{{data}}}]}}"#), &["inputs[0]", "'name' is missing"]);
    assert_refused(r#"{"inputs":[{"name":"X","shape":[1],"data":[1]}]}"#, &["input 'X'", "'datatype' is missing"]);
    assert_refused(r#"{"inputs":[{"name":"X","datatype":"INT8","data":[1]}]}"#, &["input 'X'", "'shape' is missing"]);
    assert_refused(r#"{"inputs":[{"name":5}]}"#, &["inputs[0], 'name': expected a string, got a number"]);
    assert_refused(with_input("FP8", "[1]", "[1]"), &["input 'X', 'datatype': 'FP8' is no datatype"]);
    assert_refused(with_input("fp32", "[1]", "[1]"), &["'fp32' is no datatype"]);
    assert_refused(with_input("INT8", "[1]", "1"), &["input 'X', 'data': expected an array, got a number"]);
    assert_refused(with_member(r#""id":5"#), &["'id': expected a string, got a number"]);
    assert_refused(with_member(r#""outputs":{}"#), &["'outputs': expected an array, got an object"]);
    assert_refused(with_member(r#""outputs":[{}]"#), &["outputs[0]: 'name' is missing"]);
    assert_refused(with_member(r#""outputs":[{"name":1}]"#), &["outputs[0]: 'name': expected a string"]);
    assert_refused(with_member(r#""parameters":[]"#), &["'parameters': expected an object, got an array"]);
    assert_refused(b"{\"id\":\"\xff\"}", &["'id': the string is not valid UTF-8"]);
}

#[test]
fn a_fault_in_late_data_is_placed_like_one_in_early_data() {
    let json = r#"{"inputs":[{"data":[1,2.5],"name":"X","datatype":"INT8","shape":[2]}]}"#;
    assert_refused(json, &["input 'X', 'data': 2.5 is not an integer", "at byte 22"]);
}

#[test]
fn one_source_of_data() {
    let none = r#"{"inputs":[{"name":"X","datatype":"INT8","shape":[1]}]}"#;
    assert_refused(none, &["'X'", "'m'", "must set only one of", "it sets none of them"]);
    let both =
        r#"{"inputs":[{"name":"X","datatype":"INT8","shape":[1],"data":[1],"parameters":{"binary_data_size":1}}]}"#;
    assert_refused(both, &["'X'", "must set only one of", "it sets 'data' and 'binary_data_size'"]);
    let shared = r#"{"inputs":[{"name":"X","datatype":"INT8","shape":[9],"parameters":{"shared_memory_region":"r",
        "shared_memory_byte_size":9}}]}"#;
    let call = accepted(shared);
    assert_eq!(call.inputs[0].data.len(), 0);
    assert_eq!(call.inputs[0].parameters[0], ("shared_memory_region".to_owned(), Parameter::String("r".to_owned())));
    let shared_and_data = r#"{"inputs":[{"name":"X","datatype":"INT8","shape":[1],"data":[1],
        "parameters":{"shared_memory_region":"r"}}]}"#;
    assert_refused(shared_and_data, &["it sets 'data' and 'shared_memory_region'"]);
}

#[test]
fn parameters() {
    let values = r#""parameters":{"i":-5,"u":18446744073709551615,"d":1e3,"s":"\u0041","b":false}"#;
    let expected = [
        ("i", Parameter::Int(-5)),
        ("u", Parameter::Uint(u64::MAX)),
        ("d", Parameter::Double(1000.0)),
        ("s", Parameter::String("A".to_owned())),
        ("b", Parameter::Bool(false)),
    ];
    assert_eq!(accepted(with_member(values)).parameters, expected.map(|(key, value)| (key.to_owned(), value)));
    for value in ["null", "[1]", "{}"] {
        let in_request = with_member(&format!(r#""parameters":{{"a":{value}}}"#));
        assert_refused(in_request, &["parameter 'a' has invalid type"]);
        let in_output = with_member(&format!(r#""outputs":[{{"name":"Y","parameters":{{"a":{value}}}}}]"#));
        assert_refused(in_output, &["outputs[0]", "parameter 'a' has invalid type"]);
        let in_input = format!(r#"{{"inputs":[{{"name":"X","parameters":{{"a":{value}}}}}]}}"#);
        assert_refused(in_input, &["input 'X'", "parameter 'a' has invalid type"]);
    }
    for value in ["18446744073709551616", "-9223372036854775809", "1e400"] {
        assert_refused(
            with_member(&format!(r#""parameters":{{"a":{value}}}"#)),
            &["parameter 'a'", "out of range", value],
        );
    }
    let reserved = with_member(r#""parameters":{"triton_enable_empty_final_response":true}"#);
    assert_refused(reserved, &["'triton_enable_empty_final_response'", "are reserved for Triton usage"]);
}

#[test]
fn parameters_of_the_wire() {
    assert_refused(
        with_member(r#""parameters":{"binary_data_output":1}"#),
        &["'binary_data_output' has invalid type", "got 1"],
    );
    assert_refused(
        with_member(r#""outputs":[{"name":"Y","parameters":{"binary_data":"yes"}}]"#),
        &["'binary_data' has"],
    );
    for value in ["-1", "\"a\"", "1.5", "4294967296"] {
        let output = format!(r#""outputs":[{{"name":"Y","parameters":{{"classification":{value}}}}}]"#);
        assert_refused(with_member(&output), &["outputs[0]", "'classification' must be a non-negative"]);
    }
    for value in ["-1", "\"16\"", "1.5", "true"] {
        let input = format!(
            r#"{{"inputs":[{{"name":"X","datatype":"INT8","shape":[1],"parameters":{{"binary_data_size":{value}}}}}]}}"#
        );
        assert_refused(input, &["input 'X'", "'binary_data_size' must be a non-negative integer", value]);
    }
}

#[test]
fn broken_json() {
    let broken = [
        r#"{"inputs":[]"#,
        r#"{"inputs":[}"#,
        r#"{"inputs":[],}"#,
        r#"{"inputs":[],"a"}"#,
        r#"{"inputs":[],"a":}"#,
        r#"{"inputs":[],"a":[1,]}"#,
        r#"{"inputs":[],"a":[1 2]}"#,
        r#"{"inputs":[],"a":{"b" 1}}"#,
        r#"{"inputs":[] "a":1}"#,
        r#"{"inputs":[],a:1}"#,
        r#"{"inputs":[],'a':1}"#,
        r#"{"inputs":[]} x"#,
        r#"{"inputs":[]}{}"#,
        r#"{"inputs":[]} // comment"#,
        r#"/* comment */ {"inputs":[]}"#,
        r#"{"inputs":[],"a":tru}"#,
        r#"{"inputs":[],"a":nul}"#,
        "{\"inputs\":[],\"a\":\"",
        "\u{feff}\u{feff}{\"inputs\":[]}",
        "{\"inputs\":[]}\0",
    ];
    for json in broken {
        assert_refused(json, &["the JSON of the request to model 'm' is wrong", "at byte"]);
    }
    for data in [
        "[1,]", "[,1]", "[1,,2]", "[1", "[[1]", "[1]]", "[1}", "[01]", "[1.]", "[.5]", "[+1]", "[-]", "[1e]", "[1e+]",
        "[0x1]",
    ] {
        refused(with_input("FP32", "[1]", data));
        let late = format!(r#"{{"inputs":[{{"data":{data},"name":"X","datatype":"FP32","shape":[1]}}]}}"#);
        refused(late);
    }
}

#[test]
fn messages_stay_short() {
    let long = "x".repeat(10_000);
    let key = format!("{{\"inputs\":[{{\"{long}\":tru}}]}}");
    let name = format!("{{\"inputs\":[{{\"name\":\"{long}\",\"shape\":5}}]}}");
    let number = with_input("INT8", "[1]", &format!("[{}]", "9".repeat(10_000)));
    let dim = with_input("INT8", &format!("[{}]", "9".repeat(10_000)), "[1]");
    let parameter = with_member(&format!("\"parameters\":{{\"{long}\":null}}"));
    for json in [key, name, with_input(&long, "[1]", "[1]"), number, dim, parameter] {
        let message = refused(json);
        assert!(message.len() < 400, "{message}");
    }
}

#[test]
fn empty_inputs_are_the_engines_to_judge() {
    let call = accepted(r#"{"inputs":[],"outputs":[]}"#);
    assert!(call.inputs.is_empty() && call.outputs.is_empty());
}

#[test]
fn duplicates_are_kept_for_the_engine() {
    let input = r#"{"name":"X","datatype":"INT8","shape":[1],"data":[1]}"#;
    let call = accepted(format!(r#"{{"inputs":[{input},{input}],"outputs":[{{"name":"Y"}},{{"name":"Y"}}]}}"#));
    assert_eq!((call.inputs.len(), call.outputs.len()), (2, 2));
}

#[test]
fn every_prefix_of_a_request_is_refused_without_a_panic() {
    let json = r#"{"id":"a\u00e9","inputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1.5e-3,NaN]},{"data":[["a\n"]],
        "name":"T","datatype":"BYTES","shape":[1],"parameters":{"a":true}}],"parameters":{"n":-1,"z":null}}"#;
    for end in 0..json.len() {
        refused(&json[..end]);
    }
}
