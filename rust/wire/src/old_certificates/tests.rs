//! Old certificates made here, and what is not quite one.

use ring::rand::SystemRandom;
use ring::signature::{EcdsaKeyPair, KeyPair, ECDSA_P256_SHA256_ASN1_SIGNING};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::Der;

use super::*;

const BIT_STRING_ZERO: &[u8] = &[0];
const EC_P256: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const ECDSA_SHA256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
const ROOT: &[u8] = b"the root";

/// In the validity of `times`.
const NOW: u64 = 1_709_210_096;

fn time(tag: u8, text: &str) -> Option<u64> {
    let element = [&[tag, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    Reader(&element).time()
}

#[test]
fn times_are_seconds() {
    assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
    assert_eq!(time(UTC_TIME, "240229123456Z"), Some(1_709_210_096));
    assert_eq!(time(GENERALIZED_TIME, "20500301000000Z"), Some(2_529_705_600));
    assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
    for wrong in ["700101000000", "701301000000Z", "700101250000Z", "7001010000Z", "70010100000xZ", ""] {
        assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
    }
    assert_eq!(time(UTC_TIME, "690101000000Z"), None);
}

#[test]
fn what_is_no_certificate_is_none() {
    for bytes in [&b""[..], b"\x30", b"\x30\x00", b"\x30\x03\x30\x01\x00", b"\x30\x84\xff\xff\xff\xff", b"\x30\x82\x01"]
    {
        assert!(Old::read(bytes).is_none());
    }
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = match u8::try_from(content.len()) {
        Ok(short @ ..=0x7f) => vec![short],
        Ok(length) => vec![0x81, length],
        Err(_) => [&[0x82][..], &u16::try_from(content.len()).unwrap().to_be_bytes()].concat(),
    };
    [&[tag][..], &length, &content].concat()
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap()
}

/// The algorithm and bits of a public key.
fn key_info(key: &EcdsaKeyPair) -> Vec<u8> {
    let bits = element(BIT_STRING, &[BIT_STRING_ZERO, key.public_key().as_ref()]);
    [element(SEQUENCE, &[EC_P256]), bits].concat()
}

fn times(from: &str, to: &str) -> Vec<u8> {
    element(SEQUENCE, &[&element(UTC_TIME, &[from.as_bytes()]), &element(UTC_TIME, &[to.as_bytes()])])
}

/// Signed by `signer`, whatever it is.
fn signed(content: &[u8], signer: &EcdsaKeyPair) -> Vec<u8> {
    let signature = signer.sign(&SystemRandom::new(), content).unwrap();
    let bits = element(BIT_STRING, &[BIT_STRING_ZERO, signature.as_ref()]);
    element(SEQUENCE, &[content, &element(SEQUENCE, &[ECDSA_SHA256]), &bits])
}

fn content(issuer: &[u8], times: &[u8], key: &EcdsaKeyPair, more: &[u8]) -> Vec<u8> {
    let (serial, algorithm) = (element(INTEGER, &[&[7]]), element(SEQUENCE, &[ECDSA_SHA256]));
    let (issuer, subject) = (element(SEQUENCE, &[issuer]), element(SEQUENCE, &[b"a client"]));
    element(SEQUENCE, &[&serial, &algorithm, &issuer, times, &subject, &element(SEQUENCE, &[&key_info(key)]), more])
}

fn root(key: &EcdsaKeyPair) -> TrustAnchor<'static> {
    TrustAnchor {
        subject: Der::from(ROOT.to_vec()),
        subject_public_key_info: Der::from(key_info(key)),
        name_constraints: None,
    }
}

/// None for what is no old certificate, which the library refuses unless it is a newer one.
fn judged(der: &[u8], roots: &[TrustAnchor<'_>], now: u64) -> Option<Result<(), CertificateError>> {
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
    let all = default_provider().signature_verification_algorithms.all;
    Old::read(der).map(|old| old.check(roots, all, now))
}

fn year() -> Vec<u8> {
    times("240101000000Z", "241231000000Z")
}

#[test]
fn a_certificate_of_a_root_is_good_within_its_time() {
    let (signer, client) = (new_key(), new_key());
    let der = signed(&content(ROOT, &year(), &client, b""), &signer);
    let roots = [root(&new_key()), root(&signer)];
    assert_eq!(judged(&der, &roots, NOW), Some(Ok(())));
    assert_eq!(judged(&der, &roots, NOW - 365 * 86_400), Some(Err(CertificateError::NotValidYet)));
    assert_eq!(judged(&der, &roots, NOW + 365 * 86_400), Some(Err(CertificateError::Expired)));
}

#[test]
fn nobody_else_may_sign() {
    let (signer, client) = (new_key(), new_key());
    let by_itself = signed(&content(ROOT, &year(), &client, b""), &client);
    assert_eq!(judged(&by_itself, &[root(&signer)], NOW), Some(Err(CertificateError::BadSignature)));
    let of_another_name = signed(&content(b"another", &year(), &client, b""), &signer);
    assert_eq!(judged(&of_another_name, &[root(&signer)], NOW), Some(Err(CertificateError::UnknownIssuer)));
    let der = signed(&content(ROOT, &year(), &client, b""), &signer);
    assert_eq!(judged(&der, &[], NOW), Some(Err(CertificateError::UnknownIssuer)));
    let limited = TrustAnchor { name_constraints: Some(Der::from(vec![0x30, 0])), ..root(&signer) };
    assert_eq!(judged(&der, &[limited], NOW), Some(Err(CertificateError::UnknownIssuer)));
}

#[test]
fn no_byte_may_be_another_and_none_may_be_missing() {
    let (signer, client) = (new_key(), new_key());
    let der = signed(&content(ROOT, &year(), &client, b""), &signer);
    let roots = [root(&signer)];
    for place in 0..der.len() {
        assert_eq!(judged(&der[..place], &roots, NOW), None);
        for change in [0x01, 0x02, 0x20, 0x80, 0xff] {
            let mut changed = der.clone();
            changed[place] ^= change;
            assert_ne!(judged(&changed, &roots, NOW), Some(Ok(())), "byte {place} ^ {change:#x}");
        }
    }
    assert_eq!(judged(&[&der[..], b"\0"].concat(), &roots, NOW), None);
}

#[test]
fn nothing_else_that_a_root_signs_is_a_certificate() {
    let (signer, client) = (new_key(), new_key());
    let algorithm = element(SEQUENCE, &[ECDSA_SHA256]);
    let revoked = element(
        SEQUENCE,
        &[
            &element(INTEGER, &[&[1]]),
            &algorithm,
            &element(SEQUENCE, &[ROOT]),
            &element(UTC_TIME, &[b"240101000000Z"]),
            &element(UTC_TIME, &[b"241231000000Z"]),
            &element(SEQUENCE, &[&key_info(&client)]),
        ],
    );
    assert_eq!(judged(&signed(&revoked, &signer), &[root(&signer)], NOW), None);
    let with_extensions = content(ROOT, &year(), &client, &element(0xa3, &[b""]));
    assert_eq!(judged(&signed(&with_extensions, &signer), &[root(&signer)], NOW), None);
    let newer =
        [&element(0xa0, &[&element(INTEGER, &[&[2]])])[..], &content(ROOT, &year(), &client, b"")[3..]].concat();
    assert_eq!(judged(&signed(&element(SEQUENCE, &[&newer]), &signer), &[root(&signer)], NOW), None);
}

#[test]
fn a_handshake_needs_the_key_of_the_certificate() {
    let (signer, client, thief) = (new_key(), new_key(), new_key());
    let der = signed(&content(ROOT, &year(), &client, b""), &signer);
    let old = Old::read(&der).unwrap();
    let all = default_provider().signature_verification_algorithms.all;
    for (key, is_right) in [(&client, true), (&thief, false), (&signer, false)] {
        let signature = key.sign(&SystemRandom::new(), b"a handshake").unwrap();
        assert_eq!(old.key.verifies(all, None, b"a handshake", signature.as_ref()), is_right);
        assert!(!old.key.verifies(all, None, b"another", signature.as_ref()));
        assert!(!old.key.verifies(&[], None, b"a handshake", signature.as_ref()));
    }
}
