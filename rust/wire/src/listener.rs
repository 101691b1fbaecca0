//! What a server listens for: each kind has a port, threads and rules of its own.

use crate::gateway::Gateway;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    Http,
    Grpc,
    Metrics,
    /// HTTP with paths of a platform.
    Gateway(Gateway),
}

impl Listener {
    pub const ALL: [Self; 5] =
        [Self::Http, Self::Grpc, Self::Metrics, Self::Gateway(Gateway::SageMaker), Self::Gateway(Gateway::VertexAi)];

    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Metrics => "metrics",
            Self::Gateway(gateway) => gateway.name(),
        }
    }

    /// As messages name it.
    pub fn service(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Grpc => "GRPC",
            Self::Metrics => "Metrics",
            Self::Gateway(Gateway::SageMaker) => "SageMaker",
            Self::Gateway(Gateway::VertexAi) => "Vertex AI",
        }
    }
}
