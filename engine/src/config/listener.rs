//! Listeners: where to bind and what address to tell clients.
//!
//! Owns the syntax of `listeners`, `advertised.listeners` and `listener.security.protocol.map`.
//! Knows no socket and resolves no name. Every refusal is one line that names the setting.

use std::fmt;

use super::ConfigError;

/// One address that the broker binds, and the address that clients who came through it are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name, in upper case (`PLAINTEXT`, `INTERNAL`).
    pub name: String,
    /// How it talks.
    pub protocol: SecurityProtocol,
    /// Host to bind: a name or an address without brackets; `0.0.0.0` where it was left empty.
    pub host: String,
    /// Port to bind; 0 lets the system choose, and then the chosen one is advertised.
    pub port: u16,
    /// Host that clients are told.
    pub advertised_host: String,
    /// Port that clients are told; 0 stands for the bound one.
    pub advertised_port: u16,
}

/// How a listener talks. The other protocols of Kafka are refused at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext,
}

impl fmt::Display for Listener {
    /// As the setting is written: `NAME://HOST:PORT` of the bound address.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, host, port, .. } = self;
        if host.contains(':') {
            write!(out, "{name}://[{host}]:{port}")
        } else {
            write!(out, "{name}://{host}:{port}")
        }
    }
}

/// Texts of the settings that listeners are made of.
pub(super) struct Texts<'a> {
    /// Items of `listeners`.
    pub listeners: &'a [String],
    /// Items of `advertised.listeners`; empty where it is not set.
    pub advertised: &'a [String],
    /// `listener.security.protocol.map`.
    pub protocols: &'a str,
    /// `controller.listener.names`: listeners that are not bound.
    pub controllers: &'a [String],
}

const KAFKA_PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// The listeners to bind. Refuses what cannot work: no listener, the same name or port twice, a
/// protocol that is not supported, every address bound but none to tell.
pub(super) fn parse(texts: &Texts<'_>) -> Result<Vec<Listener>, ConfigError> {
    let ours = |name: &str| !texts.controllers.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut advertised = Vec::new();
    for text in texts.advertised {
        advertised.push(Address::parse("advertised.listeners", text)?);
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for text in texts.listeners {
        let address = Address::parse("listeners", text)?;
        if !ours(&address.name) {
            continue;
        }
        let at = advertised.iter().position(|other| other.name == address.name);
        let told = at.map(|at| advertised.swap_remove(at));
        let listener = join(address, told, texts.protocols)?;
        refuse_twice(&listeners, &listener)?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err(error("listeners", "name at least one as NAME://HOST:PORT"));
    }
    if let Some(other) = advertised.iter().find(|other| ours(&other.name)) {
        let reason = format!("{} is not among listeners", other.name);
        return Err(error("advertised.listeners", &reason));
    }
    Ok(listeners)
}

fn join(bound: Address, told: Option<Address>, map: &str) -> Result<Listener, ConfigError> {
    let protocol = protocol(&bound.name, map)?;
    let (advertised_host, advertised_port) = match told {
        Some(told) if is_wildcard(&told.host) => {
            let reason = format!(
                "{}://{} is every address; clients need one that they can reach",
                told.name, told.host
            );
            return Err(error("advertised.listeners", &reason));
        }
        Some(told) => (told.host, told.port),
        None if is_wildcard(&bound.host) => {
            let Address { name, port, .. } = bound;
            let reason = format!(
                "{name} binds every address, so clients must be told one: set \
                 advertised.listeners={name}://HOST:{port} (or --advertise HOST:{port})"
            );
            return Err(error("listeners", &reason));
        }
        None => (bound.host.clone(), bound.port),
    };
    let Address { name, host, port } = bound;
    let host = if host.is_empty() { "0.0.0.0".to_owned() } else { host };
    Ok(Listener { name, protocol, host, port, advertised_host, advertised_port })
}

fn refuse_twice(listeners: &[Listener], new: &Listener) -> Result<(), ConfigError> {
    if listeners.iter().any(|other| other.name == new.name) {
        return Err(error("listeners", &format!("{} is named twice", new.name)));
    }
    let same = |other: &&Listener| other.port == new.port && other.host == new.host;
    if new.port != 0 && listeners.iter().any(|other| same(&other)) {
        return Err(error("listeners", &format!("port {} is bound twice", new.port)));
    }
    Ok(())
}

fn protocol(name: &str, map: &str) -> Result<SecurityProtocol, ConfigError> {
    const SETTING: &str = "listener.security.protocol.map";
    let mut found = None;
    for pair in map.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once(':')
            .ok_or_else(|| error(SETTING, &format!("{pair} is not NAME:PROTOCOL")))?;
        if key.trim().eq_ignore_ascii_case(name) {
            found = Some(value.trim().to_ascii_uppercase());
        }
    }
    match found.as_deref() {
        Some("PLAINTEXT") => Ok(SecurityProtocol::Plaintext),
        Some(other) if KAFKA_PROTOCOLS.contains(&other) => {
            let reason = format!("{name} asks for {other}; only PLAINTEXT is supported so far");
            Err(error("listeners", &reason))
        }
        Some(other) => {
            let all = KAFKA_PROTOCOLS.join(", ");
            Err(error(SETTING, &format!("{other} is not a protocol; Kafka's are {all}")))
        }
        None => Err(error(SETTING, &format!("no protocol for listener {name}"))),
    }
}

/// Whether the host stands for every address of the machine.
fn is_wildcard(host: &str) -> bool {
    host.is_empty()
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified())
}

struct Address {
    name: String,
    host: String,
    port: u16,
}

impl Address {
    fn parse(setting: &str, text: &str) -> Result<Self, ConfigError> {
        let wrong = || error(setting, &format!("{text} is not NAME://HOST:PORT"));
        let (name, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(inside) => inside,
            None if host.contains(['[', ']', ':', '/', ' ']) => return Err(wrong()),
            None => host,
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.is_empty() || !name.bytes().all(allowed) {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { name: name.to_ascii_uppercase(), host: host.to_owned(), port })
    }
}

fn error(setting: &str, reason: &str) -> ConfigError {
    ConfigError::new(setting, format!("{setting}: {reason}"))
}
