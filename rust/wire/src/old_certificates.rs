//! Certificates of clients in X.509's version 1, which many make by `openssl x509 -req` without extensions.
//!
//! The library takes version 3 only. An old certificate says nothing about what it may be used for, so no more than this
//! is taken: a client's own, signed by one of the roots itself, within its time. It signs for nobody else.
//!
//! What is signed is compared and verified as the bytes that came, never as something read from them, and the
//! cryptography is the library's. Nothing else that a root signs has this shape: a list of revoked certificates has a time
//! where the times of a certificate are in a sequence, and later versions begin with a tag of their own. Both the
//! certificate and the handshake's signature need a key whose algorithm is the one that its owner's certificate names.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{verify_tls13_signature_with_raw_key, WebPkiSupportedAlgorithms};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;

/// Judges old certificates itself and leaves all others to the library.
#[derive(Debug)]
pub struct TakesOld {
    pub library: Arc<dyn ClientCertVerifier>,
    pub roots: Arc<RootCertStore>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for TakesOld {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.library.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match Old::read(own) {
            None => self.library.verify_client_cert(own, between, now),
            Some(old) => {
                old.check(&self.roots.roots, self.algorithms.all, now).map_err(Error::InvalidCertificate)?;
                Ok(ClientCertVerified::assertion())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(old) = Old::read(certificate) else {
            return self.library.verify_tls12_signature(message, certificate, signed);
        };
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let algorithms = known.map_or(&[][..], |(_, algorithms)| algorithms);
        match old.key.verifies(algorithms, None, message, signed.signature()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(old) = Old::read(certificate) else {
            return self.library.verify_tls13_signature(message, certificate, signed);
        };
        let key = SubjectPublicKeyInfoDer::from(old.key_info);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.library.supported_verify_schemes()
    }
}

/// A certificate of version 1: each part as it is encoded, names and algorithms without their heads.
struct Old<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    issuer: &'a [u8],
    /// Seconds since 1970.
    not_before: u64,
    not_after: u64,
    key: Key<'a>,
    key_info: &'a [u8],
}

impl<'a> Old<'a> {
    /// None for another version, and for what is no certificate.
    fn read(der: &'a [u8]) -> Option<Self> {
        let mut whole = Reader(der).only(SEQUENCE)?;
        let signed = whole.whole(SEQUENCE)?;
        let algorithm = whole.next(SEQUENCE)?.0;
        let signature = whole.bits()?;
        if !whole.0.is_empty() {
            return None;
        }
        let mut parts = Reader(signed).only(SEQUENCE)?;
        // Later versions begin with their number.
        parts.next(INTEGER)?;
        if parts.next(SEQUENCE)?.0 != algorithm {
            return None;
        }
        let issuer = parts.next(SEQUENCE)?.0;
        let mut validity = parts.next(SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        parts.next(SEQUENCE)?;
        let key_info = parts.whole(SEQUENCE)?;
        let key = Key::read(Reader(key_info).only(SEQUENCE)?)?;
        if !parts.0.is_empty() {
            return None;
        }
        Some(Self { signed, algorithm, signature, issuer, not_before, not_after, key, key_info })
    }

    fn check(
        &self,
        roots: &[TrustAnchor<'_>],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        if now.as_secs() < self.not_before {
            return Err(CertificateError::NotValidYet);
        }
        if now.as_secs() > self.not_after {
            return Err(CertificateError::Expired);
        }
        // What a root may sign only in part is not for a certificate that can't be read so closely.
        let mut issuers = roots
            .iter()
            .filter(|root| root.subject.as_ref() == self.issuer && root.name_constraints.is_none())
            .peekable();
        if issuers.peek().is_none() {
            return Err(CertificateError::UnknownIssuer);
        }
        let has_signed = |root: &TrustAnchor<'_>| {
            let key = Key::read(Reader(&root.subject_public_key_info));
            key.is_some_and(|key| key.verifies(algorithms, Some(self.algorithm), self.signed, self.signature))
        };
        match issuers.any(has_signed) {
            true => Ok(()),
            false => Err(CertificateError::BadSignature),
        }
    }
}

struct Key<'a> {
    algorithm: &'a [u8],
    bits: &'a [u8],
}

impl<'a> Key<'a> {
    fn read(mut info: Reader<'a>) -> Option<Self> {
        let (algorithm, bits) = (info.next(SEQUENCE)?.0, info.bits()?);
        info.0.is_empty().then_some(Self { algorithm, bits })
    }

    /// By one of the algorithms that are for this key, and for such signatures where that is known.
    fn verifies(
        &self,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        signs: Option<&[u8]>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let fits = |one: &&&dyn SignatureVerificationAlgorithm| {
            one.public_key_alg_id().as_ref() == self.algorithm
                && signs.is_none_or(|signs| one.signature_alg_id().as_ref() == signs)
        };
        algorithms.iter().filter(fits).any(|one| one.verify_signature(self.bits, message, signature).is_ok())
    }
}

/// DER, one element after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next element, which must be of this kind: its head's length and all of its length.
    fn lengths(&self, tag: u8) -> Option<(usize, usize)> {
        let [found, first, rest @ ..] = self.0 else { return None };
        let (head, length) = match usize::from(*first) {
            short @ ..=0x7f => (2, short),
            0x81 => (3, usize::from(*rest.first()?)),
            0x82 => (4, usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]))),
            _ => return None,
        };
        let end = head + length;
        (*found == tag && end <= self.0.len()).then_some((head, end))
    }

    /// With its head.
    fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (_, end) = self.lengths(tag)?;
        let (whole, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(whole)
    }

    /// What is in it.
    fn next(&mut self, tag: u8) -> Option<Reader<'a>> {
        let (head, _) = self.lengths(tag)?;
        Some(Reader(&self.whole(tag)?[head..]))
    }

    /// What is in it, if nothing comes behind.
    fn only(mut self, tag: u8) -> Option<Reader<'a>> {
        self.next(tag).filter(|_| self.0.is_empty())
    }

    fn bits(&mut self) -> Option<&'a [u8]> {
        self.next(BIT_STRING)?.0.strip_prefix(&[0])
    }

    /// Seconds since 1970.
    fn time(&mut self) -> Option<u64> {
        let (digits, year_digits) = match self.0.first()? {
            &UTC_TIME => (self.next(UTC_TIME)?.0, 2),
            _ => (self.next(GENERALIZED_TIME)?.0, 4),
        };
        let digits = digits.strip_suffix(b"Z")?;
        if digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        let (year, rest) = digits.split_at(year_digits);
        let year = match (number(year), year_digits) {
            (short @ ..50, 2) => 2000 + short,
            (short, 2) => 1900 + short,
            (year, _) => year,
        };
        let pairs: Vec<u64> = rest.chunks(2).map(number).collect();
        let [month, day, hour, minute, second] = pairs[..] else { return None };
        let is_right = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
        (is_right && hour < 24 && minute < 60 && second < 61)
            .then(|| ((days(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second)
    }
}

/// From 1970 to the first of this month.
fn days(year: u64, month: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let month = usize::try_from(month - 1).unwrap_or(0);
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + BEFORE[month] + u64::from(is_leap && month > 1)
}

#[cfg(test)]
mod tests;
