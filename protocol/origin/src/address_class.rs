//! Classes of addresses that are not globally reachable unicast addresses (IANA special-purpose registries,
//! RFC 6890), in every notation or embedding. Pure.
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Classes of addresses outside the public Internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// 255.255.255.255.
    Broadcast,
    /// Carrier-grade NAT: 100.64.0.0/10 (RFC 6598).
    CarrierGrade,
    /// Documentation and benchmarking: RFC 5737, RFC 3849, RFC 9637, RFC 2544.
    Documentation,
    /// fe80::/10, 169.254.0.0/16.
    LinkLocal,
    /// The machine itself: 127.0.0.0/8, ::1.
    Loopback,
    /// Cloud metadata services, which serve credentials and settings to virtual machines.
    Metadata,
    /// 224.0.0.0/4, ff00::/8.
    Multicast,
    /// One of the gateway's own addresses.
    Own,
    /// RFC 1918, unique local addresses (RFC 4193) and the former site-local addresses.
    Private,
    /// Unassigned, or with a meaning other than a public host.
    Reserved,
    /// 0.0.0.0/8, ::.
    Unspecified,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broadcast => "a broadcast address",
            Self::CarrierGrade => "a carrier-grade NAT address",
            Self::Documentation => "a documentation address",
            Self::LinkLocal => "a link-local address",
            Self::Loopback => "a loopback address",
            Self::Metadata => "a cloud metadata address",
            Self::Multicast => "a multicast address",
            Self::Own => "the gateway's own address",
            Self::Private => "a private address",
            Self::Reserved => "a reserved address",
            Self::Unspecified => "the unspecified address",
        })
    }
}

/// Returns true if an address is itself private, and does not embed an IPv4 address that is not public.
pub(crate) fn is_plainly_private(address: IpAddr) -> bool {
    matches!(
        class_of_itself(address),
        Some(AddressClass::Private | AddressClass::CarrierGrade)
    )
}

/// Returns true for an address of this machine or of a network that it may be in: private, loopback, link-local. Addresses that
/// embed another one are none.
pub fn is_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    is_plainly_private(address)
        || matches!(
            class_of_itself(address),
            Some(AddressClass::Loopback | AddressClass::LinkLocal | AddressClass::Unspecified)
        )
}

/// The class of an address that embeds no other one.
fn class_of_itself(address: IpAddr) -> Option<AddressClass> {
    let hides_another = match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => class_of_embedded(v6).is_some(),
    };
    class_of(address).filter(|_| !hides_another)
}

/// Returns the class of an address that is not public; `None` if it is public.
pub(crate) fn class_of(address: IpAddr) -> Option<AddressClass> {
    match address {
        IpAddr::V4(v4) => class_of_v4(v4),
        IpAddr::V6(v6) => class_of_v6(v6),
    }
}

fn class_of_v4(address: Ipv4Addr) -> Option<AddressClass> {
    match address.octets() {
        // Amazon, Google, Azure and others; two addresses of Amazon's containers; Alibaba; Oracle; Azure's
        // host agent, whose address looks public.
        [169, 254, 169, 254]
        | [169, 254, 170, 2 | 23]
        | [100, 100, 100, 200]
        | [192, 0, 0, 192]
        | [168, 63, 129, 16] => Some(AddressClass::Metadata),
        [0, ..] => Some(AddressClass::Unspecified),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(AddressClass::Private),
        [100, 64..=127, ..] => Some(AddressClass::CarrierGrade),
        [127, ..] => Some(AddressClass::Loopback),
        [169, 254, ..] => Some(AddressClass::LinkLocal),
        [192, 0, 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Some(AddressClass::Documentation)
        }
        // IETF protocol assignments (RFC 6890), AS112, AMT and 6to4 relay anycast (RFC 7526).
        [192, 0, 0, _] | [192, 31, 196, _] | [192, 52, 193, _] | [192, 88, 99, _] | [192, 175, 48, _] => {
            Some(AddressClass::Reserved)
        }
        [255, 255, 255, 255] => Some(AddressClass::Broadcast),
        [224..=239, ..] => Some(AddressClass::Multicast),
        [240..=255, ..] => Some(AddressClass::Reserved),
        _ => None,
    }
}

fn class_of_v6(address: Ipv6Addr) -> Option<AddressClass> {
    let segments = address.segments();
    if let Some(class) = class_of_embedded(address) {
        return Some(class);
    }
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(AddressClass::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressClass::Loopback),
        // Metadata services of Amazon (instance, pod identity) and Google.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254 | 0x23] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            Some(AddressClass::Metadata)
        }
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => None,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 2, 0, ..] => {
            Some(AddressClass::Documentation)
        }
        // 2001::/23: protocol assignments, including Teredo and ORCHID.
        [0x2001, 0..=0x1ff, ..] => Some(AddressClass::Reserved),
        [0x2620, 0x4f, 0x8000, ..] => Some(AddressClass::Reserved),
        [0x2000..=0x3fff, ..] => None,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(AddressClass::Private),
        [0xfe80..=0xfebf, ..] => Some(AddressClass::LinkLocal),
        [0xff00..=0xffff, ..] => Some(AddressClass::Multicast),
        _ => Some(AddressClass::Reserved),
    }
}

/// Returns the class of the IPv4 address that a transition mechanism embeds in an IPv6 address, if the IPv4
/// address is not public.
fn class_of_embedded(address: Ipv6Addr) -> Option<AddressClass> {
    match address.segments() {
        // ::1 and :: are not IPv4-compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // IPv4-mapped (::ffff:0:0/96), IPv4-compatible (::/96), IPv4-translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => class_of_v4(v4_of(high, low)),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => class_of_v4(v4_of(high, low)),
        // Teredo (RFC 4380): the server's address, and the client's address with all bits inverted.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            class_of_v4(v4_of(high, low)).or_else(|| class_of_v4(v4_of(!client_high, !client_low)))
        }
        // ISATAP (RFC 5214) in any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => class_of_v4(v4_of(high, low)),
        _ => None,
    }
}

fn v4_of(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}
