//! The files of the carriers' certificate and key.
use std::{fmt, fs, io, path::PathBuf};

use longhaul_carriers::{Identity, IdentityError, PemIdentity};
use longhaul_gateway_core::{
    admission::state::{StateDir, StateError},
    config::Config,
    file_problem::file_problem,
};

/// Files of the certificate and the key that the gateway makes, in the state directory.
const CERTIFICATE: &str = "carrier.pem";
const KEY: &str = "carrier.key";

/// A file of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarrierFile {
    setting: &'static str,
    path: PathBuf,
    /// True if the gateway itself makes the file.
    is_made: bool,
}

impl CarrierFile {
    /// What the operator can do besides the obvious, as the end of a sentence.
    fn remedy(&self) -> &'static str {
        if self.is_made {
            "; remove carrier.pem and carrier.key there, so that the gateway makes new ones at its next start"
        } else {
            ""
        }
    }

    fn read(&self) -> Result<String, CarrierFileError> {
        let bytes = fs::read(&self.path).map_err(|source| CarrierFileError::Read {
            file: self.clone(),
            source,
        })?;
        // What is outside of the lines between BEGIN and END may have any form.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl fmt::Display for CarrierFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.path.display())
    }
}

/// The files of one certificate.
#[derive(Clone, Debug)]
pub struct CarrierFiles {
    certificate: CarrierFile,
    key: CarrierFile,
}

/// Errors of certificate and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierFileError {
    /// A file cannot be read.
    #[error("{file} {}{}", file_problem(source), .file.remedy())]
    Read {
        /// The file.
        file: CarrierFile,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file of the certificate contains none.
    #[error(
        "{file} contains no certificate in PEM form (lines between BEGIN CERTIFICATE and END CERTIFICATE){}",
        .0.remedy(),
        file = .0
    )]
    NoCertificate(CarrierFile),
    /// The file of the key contains none.
    #[error(
        "{file} contains no private key in PEM form (lines between BEGIN PRIVATE KEY and END PRIVATE KEY); keys with a \
         password cannot be used{}",
        .0.remedy(),
        file = .0
    )]
    NoKey(CarrierFile),
    /// Certificate and key cannot be used together.
    #[error(
        "{} does not fit the key in {}: {source}. Both must have been made together, and the certificate of the gateway \
         must be the first one in its file{}",
        .files.certificate,
        .files.key.path.display(),
        .files.certificate.remedy()
    )]
    Unfit {
        /// The files.
        files: Box<CarrierFiles>,
        /// What is wrong.
        source: rustls::Error,
    },
    /// Only one of certificate and key is configured.
    #[error("carriers.cert and carriers.key belong together, and only one of them is set: set both, or none")]
    OnlyOne,
    /// The port that carrier and proxy share would have two certificates.
    #[error(
        "carriers.cert: carriers.tls and clientless.tls share a port, whose certificate is clientless.certificate; remove \
         carriers.cert and carriers.key, or give each a port of its own"
    )]
    TwoCertificates,
    /// No certificate can be made.
    #[error(
        "carriers.cert: no certificate can be made for `{host}`: {source}; set public-address to the name of this gateway, \
         or carriers.cert and carriers.key to files of your own"
    )]
    Make {
        /// The name.
        host: String,
        /// What is wrong.
        source: IdentityError,
    },
    /// The state directory cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
}

impl CarrierFiles {
    /// The files of the settings, or else those of the gateway, which are made at the first start.
    pub(super) fn of(config: &Config, state: &StateDir) -> Result<Self, CarrierFileError> {
        let carriers = &config.carriers;
        match (&carriers.cert, &carriers.key) {
            (Some(certificate), Some(key)) => {
                let settings = ["carriers.cert", "carriers.key"];
                Ok(Self::new(settings, [certificate.clone(), key.clone()], false))
            }
            (None, None) => {
                let files = [CERTIFICATE, KEY].map(|name| state.file(name));
                if !files[0].exists() {
                    make(config, state)?;
                }
                Ok(Self::new(["carriers.cert", "carriers.key"], files, true))
            }
            (Some(_), None) | (None, Some(_)) => Err(CarrierFileError::OnlyOne),
        }
    }

    /// The files of the port that carrier and proxy share.
    pub(super) fn of_shared(config: &Config) -> Result<Self, CarrierFileError> {
        let (carriers, clientless) = (&config.carriers, &config.clientless);
        let is_other = |own: &Option<PathBuf>, shared| own.is_some() && own != shared;
        if is_other(&carriers.cert, &clientless.certificate) || is_other(&carriers.key, &clientless.key) {
            return Err(CarrierFileError::TwoCertificates);
        }
        let files = [&clientless.certificate, &clientless.key].map(|file| file.clone().unwrap_or_default());
        Ok(Self::new(
            ["clientless.certificate", "clientless.key"],
            files,
            false,
        ))
    }

    fn new(settings: [&'static str; 2], files: [PathBuf; 2], is_made: bool) -> Self {
        let [certificate, key] = settings;
        let file = |setting, path| CarrierFile {
            setting,
            path,
            is_made,
        };
        let [certificate_path, key_path] = files;
        Self {
            certificate: file(certificate, certificate_path),
            key: file(key, key_path),
        }
    }

    /// Reads both files.
    pub(super) fn read(&self) -> Result<Identity, CarrierFileError> {
        self.parse(&PemIdentity {
            certificate: self.certificate.read()?,
            key: self.key.read()?,
        })
    }

    /// Parses the contents of both files.
    pub(super) fn parse(&self, contents: &PemIdentity) -> Result<Identity, CarrierFileError> {
        contents.parse().map_err(|source| {
            if matches!(source, IdentityError::Key(_)) {
                CarrierFileError::NoKey(self.key.clone())
            } else {
                CarrierFileError::NoCertificate(self.certificate.clone())
            }
        })
    }

    /// The error of a certificate and a key that TLS does not accept together.
    pub(super) fn unfit(&self, source: rustls::Error) -> CarrierFileError {
        CarrierFileError::Unfit {
            files: Box::new(self.clone()),
            source,
        }
    }
}

/// Makes a certificate for the gateway's public name. The key is written first: a certificate without a key would
/// not be replaced.
fn make(config: &Config, state: &StateDir) -> Result<(), CarrierFileError> {
    let address = config.public_address.as_deref().unwrap_or("localhost:443");
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let made = PemIdentity::self_signed(host).map_err(|source| CarrierFileError::Make {
        host: host.to_owned(),
        source,
    })?;
    state.replace(KEY, made.key.as_bytes())?;
    state.replace(CERTIFICATE, made.certificate.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &std::path::Path, contents: [&str; 2]) -> CarrierFiles {
        let paths = ["cert.pem", "key.pem"].map(|name| directory.join(name));
        for (path, text) in paths.iter().zip(contents) {
            fs::write(path, text).unwrap();
        }
        CarrierFiles::new(["carriers.cert", "carriers.key"], paths, false)
    }

    #[test]
    fn mistakes_name_setting_and_file() {
        let directory = tempfile::tempdir().unwrap();
        let made = PemIdentity::self_signed("gw.test").unwrap();
        let says = |contents: [&str; 2], parts: &[&str]| {
            let error = files(directory.path(), contents).read().unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        assert!(
            files(directory.path(), [&made.certificate, &made.key])
                .read()
                .is_ok()
        );
        says(
            ["", &made.key],
            &["carriers.cert: ", "cert.pem contains no certificate"],
        );
        says(
            [&made.key, &made.key],
            &["carriers.cert: ", "cert.pem contains no certificate"],
        );
        says(
            [&made.certificate, "x"],
            &["carriers.key: ", "key.pem contains no private key"],
        );

        let mut absent = files(directory.path(), [&made.certificate, &made.key]);
        absent.key.path = directory.path().join("absent.pem");
        let error = absent.read().unwrap_err().to_string();
        assert!(
            error.contains("carriers.key: ") && error.ends_with("absent.pem does not exist"),
            "{error}"
        );
        let unfit = absent.unfit(rustls::Error::DecryptError).to_string();
        for part in [
            "carriers.cert: ",
            "cert.pem does not fit the key in ",
            "absent.pem",
        ] {
            assert!(unfit.contains(part), "{unfit}");
        }
        absent.key.is_made = true;
        let error = absent.read().unwrap_err().to_string();
        assert!(error.contains("remove carrier.pem and carrier.key"), "{error}");
    }
}
