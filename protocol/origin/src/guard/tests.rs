use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn class(text: &str) -> Option<AddressClass> {
    Guard::default()
        .check(address(text))
        .err()
        .map(|refusal| refusal.class)
}

#[test]
fn public_addresses_are_permitted() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "::ffff:8.8.8.8",
        "2001:200::1",
        "2620:fe::fe",
    ] {
        assert_eq!(class(text), None, "{text}");
    }
}

#[test]
fn special_address_ranges_are_refused() {
    use AddressClass::*;
    for (text, expected) in [
        ("0.0.0.0", Unspecified),
        ("0.255.255.255", Unspecified),
        ("::", Unspecified),
        ("10.0.0.0", Private),
        ("10.255.255.255", Private),
        ("172.16.0.0", Private),
        ("172.31.255.255", Private),
        ("192.168.0.1", Private),
        ("fc00::1", Private),
        ("fdff::1", Private),
        ("fec0::1", Private),
        ("127.0.0.1", Loopback),
        ("127.255.255.254", Loopback),
        ("::1", Loopback),
        ("100.64.0.0", CarrierGrade),
        ("100.127.255.255", CarrierGrade),
        ("169.254.0.1", LinkLocal),
        ("fe80::1", LinkLocal),
        ("febf::1", LinkLocal),
        ("169.254.169.254", Metadata),
        ("169.254.170.2", Metadata),
        ("100.100.100.200", Metadata),
        ("168.63.129.16", Metadata),
        ("fd00:ec2::254", Metadata),
        ("fd20:ce::254", Metadata),
        ("224.0.0.1", Multicast),
        ("239.255.255.255", Multicast),
        ("ff02::1", Multicast),
        ("255.255.255.255", Broadcast),
        ("240.0.0.1", Reserved),
        ("192.0.0.8", Reserved),
        ("192.0.2.1", Documentation),
        ("198.51.100.7", Documentation),
        ("203.0.113.1", Documentation),
        ("198.18.0.1", Documentation),
        ("198.19.255.255", Documentation),
        ("2001:db8::1", Documentation),
        ("3fff::1", Documentation),
        ("2001:2::1", Documentation),
        ("2001:10::1", Reserved),
        ("2620:4f:8000::1", Reserved),
        ("100::1", Reserved),
        ("4000::1", Reserved),
        ("5f00::1", Reserved),
        ("64:ff9b:1::1", Reserved),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Documentation),
    ] {
        assert_eq!(class(text), Some(expected), "{text}");
    }
}

#[test]
fn ipv4_addresses_embedded_in_ipv6_are_checked() {
    for text in [
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::1",
        "2001:0:808:808:0:0:5601:5601",
        "2606:4700::5efe:169.254.169.254",
        "2606:4700::200:5efe:169.254.169.254",
    ] {
        assert_eq!(class(text), Some(AddressClass::Metadata), "{text}");
    }
    let refusal = Guard::default().check(address("::ffff:a9fe:a9fe")).unwrap_err();
    assert!(refusal.to_string().contains(" is a cloud metadata address, "));
    assert_eq!(class("::ffff:127.0.0.1"), Some(AddressClass::Loopback));
    assert_eq!(class("::10.0.0.1"), Some(AddressClass::Private));
    assert_eq!(class("::8.8.8.8"), Some(AddressClass::Reserved));
}

#[test]
fn allows_what_the_operator_names_in_either_form() {
    let guard = Guard::new(
        ["10.0.0.0/8".parse().unwrap(), "fd00:1::/32".parse().unwrap()],
        [],
    );
    for text in ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"] {
        assert_eq!(guard.check(address(text)), Ok(()), "{text}");
    }
    for text in ["192.168.0.1", "fd00:2::5", "2002:a00:1::1", "127.0.0.1"] {
        assert!(guard.check(address(text)).is_err(), "{text}");
    }
}

#[test]
fn refuses_the_gateway_itself() {
    let guard = Guard::new([], [address("1.2.3.4"), address("2606:4700::1")]);
    for text in ["1.2.3.4", "::ffff:1.2.3.4", "2606:4700::1"] {
        let refusal = guard.check(address(text)).unwrap_err();
        assert_eq!(
            refusal,
            GuardRefusal {
                address: address(text),
                class: AddressClass::Own
            }
        );
    }
    assert_eq!(guard.check(address("1.2.3.5")), Ok(()));
}

fn judge(guard: &Guard, text: &str, port: u16, is_literal: bool) -> Option<AddressClass> {
    let destination = Destination {
        address: address(text),
        port,
        is_literal,
    };
    let judged = guard.check_destination(destination);
    judged.err().map(|refusal| refusal.class)
}

#[test]
fn a_private_address_is_allowed_as_literal_but_not_by_dns() {
    use AddressClass::*;
    let guard = Guard::new([], [address("192.168.0.9")]).permitting_private_literals();
    for text in [
        "10.0.0.1",
        "192.168.0.1",
        "192.168.0.9",
        "100.64.0.1",
        "fd00::1",
        "::ffff:10.0.0.1",
    ] {
        assert_eq!(judge(&guard, text, 80, true), None, "{text}");
        assert!(
            judge(&guard, text, 80, false).is_some(),
            "a name that leads to {text}"
        );
        assert!(judge(&Guard::default(), text, 80, true).is_some(), "a gateway");
    }
    for (text, class) in [
        ("127.0.0.1", Loopback),
        ("::1", Loopback),
        ("0.0.0.0", Unspecified),
        ("169.254.1.1", LinkLocal),
        ("fe80::1", LinkLocal),
        ("169.254.169.254", Metadata),
        ("fd00:ec2::254", Metadata),
        ("2002:a00:1::1", Private),
        ("64:ff9b::10.0.0.1", Private),
        ("224.0.0.1", Multicast),
    ] {
        assert_eq!(judge(&guard, text, 80, true), Some(class), "{text}");
    }
}

#[test]
fn local_addresses_are_permitted_to_programs_of_this_machine() {
    use AddressClass::*;
    let guard = Guard::new([], [address("192.168.0.9")])
        .refusing_ports([3128])
        .permitting_local();
    for text in [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "0.0.0.0",
        "::ffff:127.0.0.1",
        "10.0.0.1",
        "192.168.0.9",
        "100.64.0.1",
        "fd00::1",
        "169.254.1.1",
        "fe80::1",
    ] {
        for is_literal in [true, false] {
            assert_eq!(judge(&guard, text, 80, is_literal), None, "{text}");
        }
    }
    for text in ["127.0.0.1", "::1", "0.0.0.0", "192.168.0.9"] {
        assert_eq!(judge(&guard, text, 3128, true), Some(Own), "{text}");
    }
    for (text, class) in [
        ("169.254.169.254", Metadata),
        ("fd00:ec2::254", Metadata),
        ("::127.0.0.1", Loopback),
        ("2002:a00:1::1", Private),
        ("64:ff9b::10.0.0.1", Private),
        ("224.0.0.1", Multicast),
        ("255.255.255.255", Broadcast),
    ] {
        assert_eq!(judge(&guard, text, 80, true), Some(class), "{text}");
    }
}

#[test]
fn own_ports_are_refused_even_if_their_address_is_allowed() {
    let everywhere = ["0.0.0.0/0", "::/0"].map(|range| range.parse().unwrap());
    let guard = Guard::new(everywhere, [address("192.168.0.9"), address("fd00::9")])
        .permitting_private_literals()
        .refusing_ports([3128, 3129]);
    for text in [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "0.0.0.0",
        "::",
        "192.168.0.9",
        "::ffff:192.168.0.9",
        "fd00::9",
    ] {
        for is_literal in [true, false] {
            assert_eq!(
                judge(&guard, text, 3129, is_literal),
                Some(AddressClass::Own),
                "{text}"
            );
        }
        assert_eq!(judge(&guard, text, 80, true), None, "{text}, another port");
    }
    assert_eq!(judge(&guard, "192.168.0.8", 3129, true), None, "another machine");
}
