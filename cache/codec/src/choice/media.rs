//! Compressibility of a body by its type and its first bytes.

/// Expected compressibility of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compressibility {
    /// The format is already compressed.
    Compressed,
    /// Text, or a binary format that compresses as well as text.
    Text,
    /// Only a trial encoding shows the compressibility.
    Unknown,
}

/// Compressibility by the `Content-Type` value.
pub(super) fn by_type(content_type: &str) -> Compressibility {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let Some((kind, subtype)) = essence.split_once('/') else {
        return Compressibility::Unknown;
    };
    if subtype.ends_with("+xml") || subtype.ends_with("+json") {
        return Compressibility::Text;
    }
    match (kind, subtype) {
        ("text", _) => Compressibility::Text,
        ("image", "bmp" | "x-ms-bmp" | "vnd.microsoft.icon" | "x-icon" | "tiff") => Compressibility::Unknown,
        ("audio", "wav" | "x-wav" | "aiff" | "x-aiff" | "midi" | "basic" | "l16") => Compressibility::Unknown,
        ("image" | "audio" | "video", _) => Compressibility::Compressed,
        ("font", "woff" | "woff2") => Compressibility::Compressed,
        ("font", _) => Compressibility::Text,
        ("application", subtype) if TEXT_APPLICATIONS.contains(&subtype) => Compressibility::Text,
        ("application", subtype) if COMPRESSED_APPLICATIONS.contains(&subtype) => Compressibility::Compressed,
        _ => Compressibility::Unknown,
    }
}

/// Compressibility by the first bytes: the signatures of compressed formats.
pub(super) fn by_magic(first: &[u8]) -> Compressibility {
    let compressed = MAGICS.iter().any(|magic| first.starts_with(magic))
        || first.len() >= 12 && first.starts_with(b"RIFF") && &first[8..12] == b"WEBP"
        // ISO base media files: MP4, AVIF, HEIC.
        || first.len() >= 8 && &first[4..8] == b"ftyp";
    if compressed {
        Compressibility::Compressed
    } else {
        Compressibility::Unknown
    }
}

const TEXT_APPLICATIONS: &[&str] = &[
    "javascript",
    "x-javascript",
    "ecmascript",
    "json",
    "x-json",
    "json5",
    "xml",
    "x-ndjson",
    "x-www-form-urlencoded",
    "vnd.ms-fontobject",
    "x-font-ttf",
    "x-font-opentype",
    "x-font-truetype",
    "wasm",
    "x-sh",
    "graphql",
    "rtf",
    "sql",
    "vnd.apple.mpegurl",
    "x-mpegurl",
    "dash+xml",
];

const COMPRESSED_APPLICATIONS: &[&str] = &[
    "brotli",
    "font-woff",
    "font-woff2",
    "gzip",
    "java-archive",
    "mp4",
    "ogg",
    "vnd.android.package-archive",
    "vnd.rar",
    "x-7z-compressed",
    "x-bzip",
    "x-bzip2",
    "x-font-woff",
    "x-gzip",
    "x-rar-compressed",
    "x-shockwave-flash",
    "x-xz",
    "zip",
    "zstd",
];

const MAGICS: &[&[u8]] = &[
    b"\xff\xd8\xff",           // JPEG
    b"\x89PNG\r\n\x1a\n",      // PNG
    b"GIF87a",                 // GIF
    b"GIF89a",                 // GIF
    b"wOFF",                   // WOFF
    b"wOF2",                   // WOFF2
    b"\x1f\x8b\x08",           // gzip
    b"\x28\xb5\x2f\xfd",       // Zstandard
    b"PK\x03\x04",             // ZIP
    b"BZh",                    // bzip2
    b"\xfd7zXZ\x00",           // xz
    b"7z\xbc\xaf\x27\x1c",     // 7-Zip
    b"Rar!\x1a\x07",           // RAR
    b"\x1a\x45\xdf\xa3",       // Matroska, WebM
    b"OggS",                   // Ogg
    b"ID3",                    // MP3
    b"fLaC",                   // FLAC
    b"CWS",                    // compressed Flash
    b"\x00\x00\x00\x0cJXL \r", // JPEG XL
];
