//! Watches what a client sends before anybody parses it: heads that never end, and floods of HTTP/2 frames.
//!
//! `h2` bounds what a frame may cost in memory: open streams, header lists, continuations, empty DATA, resets of streams
//! that nobody looked at yet. What it does not bound is how many frames without data a client sends: PING, SETTINGS,
//! `RST_STREAM`, PRIORITY and `WINDOW_UPDATE` cost work each, and bring nothing. Those are counted here, between any two
//! answers, and PINGs by gRPC's rules too.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::authority::Authorities;
use crate::connections::Life;
use crate::frames::{self, Frame, Frames};
use crate::heads::Heads;
use crate::options::{KeepAlive, Options};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How often a client without calls may ask whether the server is there: gRPC's figure.
const IDLE_PING_INTERVAL: Duration = Duration::from_secs(2 * 3600);

/// How long a client that was told to calm down is still listened to: a connection that is closed on unread bytes is
/// reset, and the client would not see why.
const FAREWELL: Duration = Duration::from_millis(500);

/// A stream whose reads fail when the client breaks a rule. Costs a look at each frame's head.
pub struct Guarded<S> {
    stream: S,
    life: Arc<Life>,
    /// How long a head, or a frame, may take.
    patience: Duration,
    rules: Rules,
    language: Language,
    /// Where the heads of HTTP/1 are kept as they come; for those who asked for it.
    heads: Option<Arc<Mutex<Heads>>>,
    authorities: Option<Authorities>,
    late: Option<Pin<Box<Sleep>>>,
    farewell: Option<Pin<Box<Sleep>>>,
}

enum Language {
    /// So many bytes of HTTP/2's preface were seen, and nothing else.
    Unknown(usize),
    Http1(Head),
    Http2(Http2),
}

/// Whether the head of a request has begun: the number of those before it.
#[derive(Default)]
struct Head(Option<u64>);

#[derive(Default)]
struct Http2 {
    received: Frames,
    sent: Frames,
    in_headers: bool,
}

/// What a client may do between two answers.
pub struct Rules {
    max_control_frames: u32,
    control_frames: u32,
    pings: Option<Pings>,
}

/// gRPC's rules for PINGs.
struct Pings {
    keepalive: KeepAlive,
    last: Option<Instant>,
    strikes: u32,
}

impl Rules {
    pub fn http(options: &Options) -> Self {
        Self { max_control_frames: options.http2_max_control_frames, control_frames: 0, pings: None }
    }

    pub fn grpc(options: &Options) -> Self {
        let pings = Pings { keepalive: options.grpc_keepalive, last: None, strikes: 0 };
        Self { pings: Some(pings), ..Self::http(options) }
    }

    fn received(&mut self, frame: Frame, quiet: bool) -> Result<(), &'static str> {
        if frame.kind == frames::HEADERS || (frame.kind == frames::DATA && frame.length > 0) {
            return Ok(());
        }
        let is_ping = frame.kind == frames::PING && frame.flags & frames::ACK == 0;
        if is_ping && self.pings.as_mut().is_some_and(|pings| pings.is_too_many(quiet)) {
            return Err("too_many_pings");
        }
        self.control_frames += 1;
        if self.control_frames > self.max_control_frames {
            return Err("too_many_control_frames");
        }
        Ok(())
    }

    fn answered(&mut self) {
        self.control_frames = 0;
        if let Some(pings) = &mut self.pings {
            (pings.last, pings.strikes) = (None, 0);
        }
    }
}

impl Pings {
    fn is_too_many(&mut self, quiet: bool) -> bool {
        let rule = &self.keepalive;
        let interval = match quiet && !rule.permit_without_calls {
            true => IDLE_PING_INTERVAL,
            false => Duration::from_millis(rule.min_recv_ping_interval_ms),
        };
        let now = Instant::now();
        let before = self.last.replace(now);
        if before.is_some_and(|before| now.duration_since(before) < interval) {
            self.strikes += 1;
        }
        rule.max_ping_strikes > 0 && self.strikes > rule.max_ping_strikes
    }
}

impl Language {
    /// Look at what was received.
    fn received(&mut self, mut bytes: &[u8], life: &Life, rules: &mut Rules) -> Result<(), &'static str> {
        if let Self::Unknown(seen) = self {
            let part = bytes.len().min(PREFACE.len() - *seen);
            if bytes[..part] != PREFACE[*seen..][..part] {
                *self = Self::Http1(Head::default());
            } else if *seen + part < PREFACE.len() {
                *seen += part;
                return Ok(());
            } else {
                bytes = &bytes[part..];
                *self = Self::Http2(Http2::default());
            }
        }
        match self {
            Self::Unknown(_) => Ok(()),
            Self::Http1(head) => {
                head.received(life);
                Ok(())
            }
            Self::Http2(http2) => http2.received(bytes, life.is_quiet(), rules),
        }
    }

    /// Whether something has begun that should end soon.
    fn is_inside(&self, life: &Life) -> bool {
        match self {
            Self::Unknown(seen) => *seen > 0,
            Self::Http1(head) => head.is_inside(life),
            Self::Http2(http2) => http2.received.is_inside() || http2.in_headers,
        }
    }
}

impl Head {
    fn received(&mut self, life: &Life) {
        if life.is_quiet() {
            let begun = life.requests_begun();
            self.0 = Some(begun);
        }
    }

    fn is_inside(&self, life: &Life) -> bool {
        life.is_quiet() && self.0 == Some(life.requests_begun())
    }
}

impl Http2 {
    fn received(&mut self, mut bytes: &[u8], quiet: bool, rules: &mut Rules) -> Result<(), &'static str> {
        while let Some(frame) = self.received.next(&mut bytes) {
            if matches!(frame.kind, frames::HEADERS | frames::CONTINUATION) {
                self.in_headers = frame.flags & frames::END_HEADERS == 0;
            }
            rules.received(frame, quiet)?;
        }
        Ok(())
    }

    fn sent(&mut self, mut bytes: &[u8], rules: &mut Rules) {
        while let Some(frame) = self.sent.next(&mut bytes) {
            if matches!(frame.kind, frames::DATA | frames::HEADERS) {
                rules.answered();
            }
        }
    }
}

impl<S> Guarded<S> {
    pub fn new(stream: S, life: &Arc<Life>, patience: Duration, rules: Rules) -> Self {
        let (life, language) = (Arc::clone(life), Language::Unknown(0));
        Self { stream, life, patience, rules, language, heads: None, authorities: None, late: None, farewell: None }
    }

    /// Keep the heads of HTTP/1 requests there, if there is a place.
    #[must_use]
    pub fn keeping(self, heads: Option<Arc<Mutex<Heads>>>) -> Self {
        Self { heads, ..self }
    }

    /// Mend the authorities of its calls.
    #[must_use]
    pub fn mending(self, authorities: Option<Authorities>) -> Self {
        Self { authorities, ..self }
    }

    fn keep_heads(&mut self, bytes: &[u8]) {
        let Some(heads) = &self.heads else { return };
        let mut heads = heads.lock().unwrap_or_else(PoisonError::into_inner);
        match self.language {
            Language::Http2(_) => heads.give_up(),
            Language::Unknown(_) | Language::Http1(_) => heads.received(bytes),
        }
    }

    /// Nothing came. An error when that has gone on for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.language.is_inside(&self.life) {
            self.late = None;
            return Poll::Pending;
        }
        let patience = self.patience;
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn sent(&mut self, slices: &[io::IoSlice<'_>], mut count: usize) {
        let Language::Http2(http2) = &mut self.language else { return };
        for slice in slices {
            let part = slice.len().min(count);
            http2.sent(&slice[..part], &mut self.rules);
            count -= part;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guarded<S> {
    fn say_farewell(&mut self, why: &str, context: &mut Context<'_>) {
        self.farewell = Some(Box::pin(tokio::time::sleep(FAREWELL)));
        if let Language::Http2(http2) = &self.language {
            if !http2.sent.is_inside() {
                // As good as it gets: who floods may not be reading.
                let _ = Pin::new(&mut self.stream).poll_write(context, &frames::calm_down(why));
            }
        }
    }

    /// Throw away what comes, for a while, then fail.
    fn poll_farewell(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(farewell) = &mut self.farewell else { return Poll::Pending };
        let before = buffer.filled().len();
        if farewell.as_mut().poll(context).is_pending() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
            if buffer.filled().len() > before {
                buffer.set_filled(before);
                // Others of this thread come first.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.farewell.is_some() {
            return this.poll_farewell(context, buffer);
        }
        let before = buffer.filled().len();
        if Pin::new(&mut this.stream).poll_read(context, buffer)?.is_pending() {
            return this.poll_late(context);
        }
        if let Some(authorities) = &mut this.authorities {
            authorities.mend(&mut buffer.filled_mut()[before..]);
        }
        let is_frames = matches!(this.language, Language::Http2(_));
        if is_frames || !this.language.is_inside(&this.life) {
            // A head has its time as a whole, a frame from each part to the next.
            this.late = None;
        }
        match this.language.received(&buffer.filled()[before..], &this.life, &mut this.rules) {
            Ok(()) => {
                this.keep_heads(&buffer.filled()[before..]);
                Poll::Ready(Ok(()))
            }
            Err(why) => {
                buffer.set_filled(before);
                this.say_farewell(why, context);
                this.poll_farewell(context, buffer)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let count = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.sent(&[io::IoSlice::new(bytes)], count);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let count = ready!(Pin::new(&mut this.stream).poll_write_vectored(context, slices))?;
        this.sent(slices, count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
