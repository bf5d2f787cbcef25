use longhaul_session::FailureReason;

use super::*;
use crate::trouble::{Tried, Trouble};

#[test]
fn details_from_others_are_escaped_in_pages() {
    let failure = Failure::Gateway {
        reason: FailureReason::Internal,
        detail: "<script>alert('x')</script>&\"".to_owned(),
    };
    let html = failure.page().to_html();
    assert!(!html.contains("<script"), "{html}");
    assert!(
        html.contains("&lt;script&gt;alert('x')&lt;/script&gt;&amp;&quot;"),
        "{html}"
    );
}

#[test]
fn pages_are_small_and_not_stored() {
    let failure = Failure::Gateway {
        reason: FailureReason::AddressRefused,
        detail: "x".repeat(100_000),
    };
    let response = failure.page().to_response();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    let status = response.headers()["proxy-status"].to_str().unwrap();
    let beginning = "longhaul; error=destination_ip_prohibited; details=\"";
    assert!(status.starts_with(beginning), "{status}");
    assert!(status.len() < 600, "{status}");
    assert!(response.body().len() < 4096, "{} bytes", response.body().len());
}

#[test]
fn each_failure_has_its_status_and_says_whose_fault_it_is() {
    let gateway = |reason| Failure::Gateway {
        reason,
        detail: String::new(),
    };
    for (failure, status) in [
        (gateway(FailureReason::DnsNotFound), 502),
        (gateway(FailureReason::ResponseTimeout), 504),
        (gateway(FailureReason::TargetRefused), 403),
        (gateway(FailureReason::BadUrl), 400),
        (gateway(FailureReason::Overloaded), 503),
        (gateway(FailureReason::QuotaReached), 403),
        (
            Failure::NoGateway {
                trouble: None,
                direct: None,
            },
            504,
        ),
        (Failure::Lost(Lost::PerhapsSent), 502),
        (
            Failure::Direct {
                error: longhaul_origin::FetchError::Refused,
                trouble: Some(Trouble::Silent(Tried::UDP)),
            },
            502,
        ),
        (Failure::Request(BadRequest::HeaderTooLarge), 431),
        (Failure::Request(BadRequest::Malformed), 400),
    ] {
        let page = failure.page();
        assert_eq!(page.status.as_u16(), status, "{failure:?}");
        assert!(!page.whose.is_empty() && !page.advice.is_empty(), "{failure:?}");
    }
}
