"""The object server of the end-to-end tests is itself right: published signatures, S3's answers, every fault."""

import calendar
import concurrent.futures
import contextlib
import hashlib
import http.client
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import types
import urllib.parse
from xml.etree import ElementTree

import pytest
from certificates import Authority
from object_server import ObjectServer
from object_signature import Credentials, Message, S3Error, SignatureCheck, canonical_request, signature, string_to_sign

CONTENT = bytes(range(256)) * 40
LOST = (http.client.HTTPException, OSError)
NOW = calendar.timegm((2013, 5, 24, 0, 0, 0))
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


@pytest.fixture
def store(tmp_path):
    """A folder with the bucket `b`, in which `k` is CONTENT."""
    (tmp_path / "store/b").mkdir(parents=True)
    (tmp_path / "store/b/k").write_bytes(CONTENT)
    return tmp_path / "store"


@pytest.fixture
def plain(store):
    with ObjectServer(store, signed=False) as server:
        yield server


def connect(server, tls=None):
    address = server.url.partition("//")[2]
    if tls:
        return http.client.HTTPSConnection(address, context=tls, timeout=60)
    return http.client.HTTPConnection(address, timeout=60)


def ask(server, target, method="GET", headers=None, body=None, connection=None):
    """The answer, with `body` and S3's error `code`."""
    with contextlib.closing(connection or connect(server)) as used:
        used.request(method, target, body, headers or {})
        response = used.getresponse()
        content = response.read()
    code = re.search(b"<Code>(.*)</Code>", content)
    return types.SimpleNamespace(
        status=response.status, headers=response.headers, body=content, code=code and code[1].decode()
    )


def assert_reset(server):
    with pytest.raises(ConnectionResetError) as lost:
        ask(server, "/b/k")
    assert lost.type is ConnectionResetError  # http.client makes a subclass of it from an orderly end


def signed(server, target, method="GET", body=b"", environment=None, at=None, payload_hash=None, extra=None):
    """Headers that sign the request by the variables of `environment`."""
    names = environment or server.environment()
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    payload_hash = payload_hash or hashlib.sha256(body).hexdigest()
    headers = {"host": f"127.0.0.1:{server.port}", "x-amz-content-sha256": payload_hash, "x-amz-date": date}
    if token := names.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = token
    headers |= extra or {}
    region, listed = names["AWS_REGION"], ";".join(sorted(headers))
    text = string_to_sign(canonical_request(Message(method, target, headers), listed, payload_hash), date, region)
    credential = f"{names['AWS_ACCESS_KEY_ID']}/{date[:8]}/{region}/s3/aws4_request"
    claimed = signature(names["AWS_SECRET_ACCESS_KEY"], text, date, region)
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={listed},Signature={claimed}"
    return headers


def ask_signed(server, target, method="GET", body=b"", **how):
    return ask(server, target, method, signed(server, target, method, body, **how), body)


# "Signature Calculations for the Authorization Header", Amazon S3 API reference: the page's four examples.
@pytest.mark.parametrize("method, target, headers, body, claimed", [
    ("GET", "/test.txt", {"range": "bytes=0-9"}, b"",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    ("PUT", "/test%24file.text",
     {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}, b"Welcome to Amazon S3.",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    ("GET", "/?lifecycle", {}, b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("GET", "/?max-keys=2&prefix=J", {}, b"", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
])  # fmt: skip
def test_signatures_are_those_that_amazon_publishes(method, target, headers, body, claimed):
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-date": "20130524T000000Z",
        **headers,
    }
    credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
    names = ";".join(sorted(headers))
    authorization = f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={claimed}"
    check = SignatureCheck("us-east-1", lambda: NOW, EXAMPLE)
    check.check(Message(method, target, {**headers, "authorization": authorization}, body))
    for change in ("0" if claimed[-1] != "0" else "1", ""):
        with pytest.raises(S3Error):
            check.check(Message(method, target, {**headers, "authorization": authorization[:-1] + change}, body))
    with pytest.raises(S3Error, match="signature"):
        check.check(Message(method, target + "x", {**headers, "authorization": authorization}, body))


def test_signed_requests_are_accepted(store):
    with ObjectServer(store, session_token=True) as server:
        for key in ("a b+c%d&e=f.bin", "ü/ö/ß/deep/er", "~._-!'()*$,:;@"):
            target = "/b/" + urllib.parse.quote(key, safe="/")
            assert ask_signed(server, target, "PUT", key.encode()).status == 200
            assert (store / "b" / key).read_bytes() == key.encode()
            assert ask_signed(server, target, payload_hash="UNSIGNED-PAYLOAD").body == key.encode()


def test_targets_are_signed_as_s3_reads_them_and_a_plus_sign_is_a_blank_of_s3_only(store, plain):
    (store / "b/a b").write_text("blank")
    (store / "b/a+b").write_text("plus")
    with ObjectServer(store) as server:
        assert ask_signed(server, "/b/a%2Bb").body == b"plus"
        assert ask_signed(server, "/b/a+b").body == b"blank"
        assert ask(server, "/b/a%2bb", headers=signed(server, "/b/a%2Bb")).body == b"plus"
        assert ask(server, "/b/a+b", headers=signed(server, "/b/a%2Bb")).code == "SignatureDoesNotMatch"
        assert ask(server, "/b/a%20b", headers=signed(server, "/b/a%2520b")).code == "SignatureDoesNotMatch"
        by_name = signed(server, "/b?list-type=2&prefix=a")
        assert ask(server, "/b?prefix=a&list-type=2", headers=by_name).status == 200
    assert ask(plain, "/b/a+b").body == b"plus"


@pytest.mark.parametrize("code, change", [
    ("AccessDenied", lambda headers: headers.pop("Authorization")),
    ("AccessDenied", lambda headers: headers.update({"x-amz-more": "1"})),
    ("AuthorizationHeaderMalformed", lambda headers: headers.update({"Authorization": "AWS4-HMAC-SHA256 nothing"})),
    ("SignatureDoesNotMatch", lambda headers: headers.update({"range": "bytes=1-2"})),
    ("XAmzContentSHA256Mismatch", lambda headers: headers.update({"x-amz-content-sha256": "0" * 64})),
    ("InvalidRequest", lambda headers: headers.pop("x-amz-content-sha256")),
])  # fmt: skip
def test_changed_requests_are_refused(store, code, change):
    with ObjectServer(store) as server:
        headers = signed(server, "/b/k", extra={"range": "bytes=0-2"})
        assert ask(server, "/b/k", headers=headers).body == CONTENT[:3]
        change(headers)
        assert ask(server, "/b/k", headers=headers).code == code


@pytest.mark.parametrize("name, value, code", [
    ("AWS_ACCESS_KEY_ID", "AKIANOBODY", "InvalidAccessKeyId"),
    ("AWS_SECRET_ACCESS_KEY", "wrong", "SignatureDoesNotMatch"),
    ("AWS_SESSION_TOKEN", "wrong", "InvalidToken"),
    ("AWS_SESSION_TOKEN", "", "InvalidToken"),
    ("AWS_REGION", "us-east-1", "AuthorizationHeaderMalformed"),
    ("AWS_REGION", "auto", None),
])  # fmt: skip
def test_wrong_credentials_are_refused(store, name, value, code):
    with ObjectServer(store, session_token=True) as server:
        assert ask_signed(server, "/b/k", environment={**server.environment(), name: value}).code == code


@pytest.mark.parametrize("seconds, code", [
    (-901, "RequestTimeTooSkewed"), (-900, None), (900, None), (901, "RequestTimeTooSkewed"),
])  # fmt: skip
def test_clocks_may_differ_by_15_minutes(store, seconds, code):
    with ObjectServer(store, clock=lambda: NOW) as server:
        assert ask_signed(server, "/b/k", at=NOW + seconds).code == code


def test_expired_credentials_are_refused_and_the_next_accepted(store):
    with ObjectServer(store) as server:
        before = server.environment()
        assert ask_signed(server, "/b/k", environment=before).status == 200
        server.expire_credentials()
        assert ask_signed(server, "/b/k", environment=before).code == "ExpiredToken"
        assert ask_signed(server, "/b/k").status == 200


def test_a_bearer_token_is_needed_and_expires(store):
    with ObjectServer(store, bearer="sesame") as server:
        assert ask(server, "/b/k").status == 401
        assert ask(server, "/b/k", headers={"Authorization": "Bearer sesame"}).body == CONTENT
        server.expire_credentials()
        assert ask(server, "/b/k", headers={"Authorization": "Bearer sesame"}).status == 401
        assert ask(server, "/b/k", headers={"Authorization": f"Bearer {server.check.token}"}).status == 200


def test_the_sts_gives_credentials_that_expire(store, tmp_path):
    now = [NOW]
    with ObjectServer(store, clock=lambda: now[0]) as server:
        variables = server.sts.environment(tmp_path / "token")
        server.sts.lifetime_seconds = 60
        form = {"Action": "AssumeRoleWithWebIdentity", "RoleArn": variables["AWS_ROLE_ARN"]}
        wrong = ask(server, "/", "POST", body=urllib.parse.urlencode({**form, "WebIdentityToken": "wrong"}))
        assert (wrong.status, wrong.code) == (400, "InvalidIdentityToken")
        assert wrong.body.index(b"<ErrorResponse") < wrong.body.index(b"<Error>")
        form["WebIdentityToken"] = (tmp_path / "token").read_text()
        given = ElementTree.fromstring(ask(server, "/", "POST", body=urllib.parse.urlencode(form)).body)
        text = {part.tag.partition("}")[2]: part.text for part in given.iter()}
        assert text["Expiration"] == "2013-05-24T00:01:00Z"
        environment = {
            "AWS_ACCESS_KEY_ID": text["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": text["SecretAccessKey"],
            "AWS_SESSION_TOKEN": text["SessionToken"],
            "AWS_REGION": server.region,
        }
        assert ask_signed(server, "/b/k", environment=environment, at=NOW).status == 200
        now[0] += 60
        assert ask_signed(server, "/b/k", environment=environment, at=NOW).code == "ExpiredToken"
        assert server.count("STS") == 2


@pytest.mark.parametrize("asked, part", [
    ("bytes=0-0", slice(0, 1)), ("bytes=10-19", slice(10, 20)), ("bytes=10000-", slice(10000, None)),
    ("bytes=-7", slice(-7, None)), ("bytes=-99999", slice(None)), ("bytes=10239-99999", slice(10239, None)),
])  # fmt: skip
def test_ranges_are_answered(plain, asked, part):
    answer = ask(plain, "/b/k", headers={"Range": asked})
    begin, end, _ = part.indices(len(CONTENT))
    assert (answer.status, answer.body) == (206, CONTENT[part])
    assert answer.headers["Content-Range"] == f"bytes {begin}-{end - 1}/{len(CONTENT)}"
    assert (plain.requests[0].begin, plain.requests[0].end) == (begin, end - 1)


@pytest.mark.parametrize("asked, status", [
    ("bytes=10240-", 416), ("bytes=-0", 416), ("bytes=5-2", 200), ("bytes=0-1,3-4", 200), ("lines=1-2", 200),
])  # fmt: skip
def test_other_ranges_are_refused_or_ignored(plain, asked, status):
    answer = ask(plain, "/b/k", headers={"Range": asked})
    assert answer.status == status
    assert answer.headers["Content-Range"] == ("bytes */10240" if status == 416 else None)
    assert answer.code == "InvalidRange" if status == 416 else answer.body == CONTENT


def test_head_and_if_match_go_by_the_content(plain, store):
    tag = f'"{hashlib.md5(CONTENT).hexdigest()}"'
    head = ask(plain, "/b/k", "HEAD")
    assert (head.headers["ETag"], head.headers["Content-Length"], head.body) == (tag, "10240", b"")
    assert plain.requests[0].bytes_sent == 0
    assert head.headers["Accept-Ranges"] == "bytes" and head.headers["Last-Modified"].endswith(" GMT")
    assert ask(plain, "/b/k", headers={"If-Match": tag}).body == CONTENT
    new = CONTENT[::-1]
    assert ask(plain, "/b/k", "PUT", body=new).headers["ETag"] == f'"{hashlib.md5(new).hexdigest()}"'
    assert ask(plain, "/b/k", "PUT", {"Transfer-Encoding": "chunked"}, "0\r\n\r\n").status == 411
    assert ask(plain, "/b/k").body == new
    changed = ask(plain, "/b/k", headers={"If-Match": tag})
    assert (changed.status, changed.code) == (412, "PreconditionFailed")


def test_no_name_leads_out_of_the_folder(plain, store, tmp_path):
    (tmp_path / "secret").write_text("s")
    (tmp_path / "outside").mkdir()
    (store / "b/link").symlink_to(tmp_path / "secret")
    (store / "linked").symlink_to(tmp_path / "outside")
    os.mkfifo(store / "b/fifo")
    for name in ("../secret", "b/../../secret", "b/%2e%2e/%2E%2E/secret", "b/link", "b/%00", "b//k", "b/k/", "b/k/k",
                 "%2e%2e/secret", "b/..%2f..%2fsecret", "b/fifo", "b/" + "x" * 300):  # fmt: skip
        assert ask(plain, "/" + name).code in ("NoSuchKey", "NoSuchBucket"), name
    assert ask(plain, "/linked?list-type=2").code == "NoSuchBucket"
    assert ask(plain, "/linked/new", "PUT", body="x").code == "NoSuchBucket"
    assert ask(plain, "/b/../../outside/new", "PUT", body="x").code == "NoSuchKey"
    assert not list((tmp_path / "outside").iterdir())
    assert listing(plain) == (["k"], [])


def listing(server, **query):
    """All keys and common prefixes, page by page."""
    keys, prefixes, token = [], [], {}
    while True:
        words = urllib.parse.urlencode({"list-type": 2, **{k.replace("_", "-"): v for k, v in query.items()}, **token})
        answer = ask(server, f"/b?{words}")
        assert answer.status == 200, answer.body
        tree, name = ElementTree.fromstring(answer.body), "{http://s3.amazonaws.com/doc/2006-03-01/}"
        page = [part.text for part in tree.iterfind(f"{name}Contents/{name}Key")]
        groups = [part.text for part in tree.iterfind(f"{name}CommonPrefixes/{name}Prefix")]
        assert len(page) + len(groups) == int(tree.findtext(f"{name}KeyCount")) <= server.page_size
        keys, prefixes = keys + page, prefixes + groups
        if tree.findtext(f"{name}IsTruncated") == "false":
            return keys, prefixes
        token = {"continuation-token": tree.findtext(f"{name}NextContinuationToken")}


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_listings_come_in_pages(plain, store, page_size):
    plain.page_size = page_size
    for key in ("a/1", "a/2", "a-", "ä &+%", "z/y/x"):
        (store / "b" / key).parent.mkdir(parents=True, exist_ok=True)
        (store / "b" / key).write_text(key)
    assert listing(plain) == (["a-", "a/1", "a/2", "k", "z/y/x", "ä &+%"], [])
    assert listing(plain, delimiter="/") == (["a-", "k", "ä &+%"], ["a/", "z/"])
    assert listing(plain, prefix="a", delimiter="/") == (["a-"], ["a/"])
    assert listing(plain, prefix="z/", delimiter="/") == ([], ["z/y/"])
    assert listing(plain, start_after="a/1", max_keys=1) == (["a/2", "k", "z/y/x", "ä &+%"], [])
    assert listing(plain, prefix="ä", encoding_type="url") == (["%C3%A4+%26%2B%25"], [])
    assert listing(plain, max_keys=0) == ([], [])
    assert ask(plain, "/none?list-type=2").code == "NoSuchBucket"
    assert ask(plain, "/b?list-type=2&max-keys=x").code == "InvalidArgument"
    assert plain.count("LIST", "none") == 1


def test_a_connection_is_kept_over_errors_and_bodies(plain):
    with contextlib.closing(connect(plain)) as connection:
        connection.connect()
        first = connection.sock
        for method, target, status in (("GET", "/b/k", 200), ("PUT", "/none/k", 404), ("HEAD", "/b/no", 404)) * 2:
            connection.request(method, target, b"x" * 9)
            response = connection.getresponse()
            response.read()
            assert response.status == status and connection.sock is first


def test_tls(store, tmp_path):
    authority = Authority(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    trusting = ssl.create_default_context(cafile=authority.pem)
    with ObjectServer(store, signed=False, tls=context) as server:
        with pytest.raises(LOST):
            ask(server, "/b/k")  # without TLS
        assert ask(server, "/b/k", connection=connect(server, trusting)).body == CONTENT
        server.reset()
        with pytest.raises(LOST):  # Python's TLS does not tell a reset from an end
            ask(server, "/b/k", connection=connect(server, trusting))


def test_failures_are_counted_and_chosen_by_key_and_method(plain, store):
    (store / "b/other").write_bytes(b"o")
    plain.fail(next_requests=2, status=503, retry_after=3, key="b/k", method="GET")
    assert ask(plain, "/b/other").status == 200 and ask(plain, "/b/k", "HEAD").status == 200
    first = ask(plain, "/b/k")
    assert (first.status, first.code, first.headers["Retry-After"]) == (503, "SlowDown", "3")
    assert [ask(plain, "/b/k").status for _ in range(2)] == [503, 200]
    plain.fail(None, 403)
    assert [ask(plain, "/b/k").code for _ in range(3)] == ["AccessDenied"] * 3
    plain.heal()
    assert ask(plain, "/b/k").status == 200
    assert [request.status for request in plain.requests] == [200, 200, 503, 503, 200, 403, 403, 403, 200]
    assert (plain.count(), plain.count("HEAD"), plain.count(key="other")) == (9, 1, 1)
    assert plain.bytes_sent("other") == 1 and plain.bytes_sent() > 2 * len(CONTENT)


def test_resets_are_resets(plain):
    plain.reset()
    assert_reset(plain)
    plain.reset(middle=True)
    assert_reset(plain)
    assert ask(plain, "/b/k").body == CONTENT
    assert [request.bytes_sent for request in plain.requests] == [0, len(CONTENT) // 2, len(CONTENT)]


def test_a_cut_body_is_half(plain):
    plain.cut()
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(plain, "/b/k")
    assert cut.value.partial == CONTENT[:5120] and cut.value.expected == 5120


def test_wrong_bytes(plain):
    ranged = {"Range": "bytes=100-109"}
    plain.wrong_bytes(how="header", shift=10)
    ask(plain, "/b/k")  # has no range, so the fault stays due
    answer = ask(plain, "/b/k", headers=ranged)
    assert (answer.headers["Content-Range"], answer.body) == ("bytes 110-119/10240", CONTENT[100:110])
    plain.wrong_bytes(how="body", shift=3)
    answer = ask(plain, "/b/k", headers=ranged)
    assert (answer.headers["Content-Range"], answer.body) == ("bytes 100-109/10240", CONTENT[103:113])
    plain.wrong_bytes(how="body", shift=3)
    assert ask(plain, "/b/k").body == CONTENT[3:] + CONTENT[:3]
    plain.wrong_bytes(how="whole")
    answer = ask(plain, "/b/k", headers=ranged)
    assert (answer.status, answer.headers["Content-Range"], answer.body) == (200, None, CONTENT)
    assert ask(plain, "/b/k", headers=ranged).body == CONTENT[100:110]


def test_an_error_in_200(plain):
    plain.error_in_200()
    answer = ask(plain, "/b/k", headers={"Range": "bytes=0-9"})
    assert (answer.status, answer.code) == (200, "InternalError")
    assert ask(plain, "/b/k").body == CONTENT


def test_a_delay_comes_before_the_answer_and_beside_another_fault(plain):
    plain.delay(0.05, next=1)
    plain.fail()
    begun = time.monotonic()
    assert ask(plain, "/b/k").status == 503
    assert time.monotonic() - begun >= 0.05


def test_the_rate_is_of_all_connections(plain):
    plain.rate(4 * len(CONTENT) / 0.2)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(answer.body == CONTENT for answer in pool.map(lambda _: ask(plain, "/b/k"), range(4)))
    assert time.monotonic() - begun >= 0.2
    plain.rate(None)
    assert plain.throttle.reserve(1 << 40) == 0


def test_death_ends_connections_and_delays_and_the_port_comes_back(plain):
    kept, url = connect(plain), plain.url
    kept.request("GET", "/b/k")
    kept.getresponse().read()
    plain.delay(600, next=1)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, plain, "/b/k")
        while plain.count() < 2:
            time.sleep(0.001)
        plain.die()
        assert isinstance(waiting.exception(timeout=60), LOST)
    with pytest.raises(ConnectionRefusedError):
        ask(plain, "/b/k")
    with pytest.raises(LOST):
        kept.request("GET", "/b/k")
        kept.getresponse()
    plain.revive()
    assert plain.url == url and ask(plain, "/b/k").body == CONTENT


def test_an_error_of_the_server_itself_fails_the_test(store):
    with pytest.raises(AttributeError), ObjectServer(store, signed=False) as server:
        server.objects = None
        with pytest.raises(LOST):
            ask(server, "/b/k")


def test_the_program_serves_and_prints_what_to_export(store):
    program = os.path.join(os.path.dirname(__file__), "object_server.py")
    with subprocess.Popen([sys.executable, program, store, "--rate", "1e9"], stdout=subprocess.PIPE) as process:
        try:
            lines = os.read(process.stdout.fileno(), 4096).decode().splitlines()  # they come in one write
            environment = dict(line.removeprefix("export ").split("=", 1) for line in lines)
            url = environment["AWS_ENDPOINT_URL"]
            server = types.SimpleNamespace(url=url, port=url.rpartition(":")[2])
            assert environment.get("GS_ENDPOINT_URL") == url
            assert ask_signed(server, "/b/k", environment=environment).body == CONTENT
            assert ask(server, "/b/k").code == "AccessDenied"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
