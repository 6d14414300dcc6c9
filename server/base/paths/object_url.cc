#include "server/base/paths/object_url.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/paths/percent_encoding.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

using Scheme = ObjectUrl::Scheme;

constexpr std::array<std::pair<absl::string_view, Scheme>, 4> kSchemes = {
    {{"s3://", Scheme::kS3},
     {"gs://", Scheme::kGs},
     {"http://", Scheme::kHttp},
     {"https://", Scheme::kHttps}}};

// A URL cut into its parts, none of them checked.
struct Cut {
  absl::string_view start;  // "s3://", as it is written
  Scheme scheme = Scheme::kS3;
  absl::string_view authority;
  absl::string_view path;   // with its "/"
  absl::string_view query;  // http, https: with its "?", and a fragment
};

std::optional<Cut> CutUrl(absl::string_view url) {
  const auto found = std::find_if(kSchemes.begin(), kSchemes.end(), [&](const auto& scheme) {
    return absl::StartsWithIgnoreCase(url, scheme.first);
  });
  if (found == kSchemes.end()) return std::nullopt;
  Cut cut{
      url.substr(0, found->first.size()), found->second, url.substr(found->first.size()), {}, {}};
  const bool is_web = cut.scheme == Scheme::kHttp || cut.scheme == Scheme::kHttps;
  if (const size_t end = is_web ? cut.authority.find_first_of("?#") : cut.authority.npos;
      end != cut.authority.npos) {
    cut.query = cut.authority.substr(end);
    cut.authority = cut.authority.substr(0, end);
  }
  const size_t slash = std::min(cut.authority.find('/'), cut.authority.size());
  cut.path = cut.authority.substr(slash);
  cut.authority = cut.authority.substr(0, slash);
  return cut;
}

bool IsPort(absl::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// How much of what follows "://" may be a user's name and password: up to an "@" in the authority,
// or, as passwords may have a "/", up to the last one if the authority has a ":" without a port.
size_t HiddenBytes(const Cut& cut) {
  if (const size_t at = cut.authority.rfind('@'); at != cut.authority.npos) return at + 1;
  const size_t colon = cut.authority.rfind(':');
  const size_t at = cut.path.rfind('@');
  const bool may_be_password =
      colon != cut.authority.npos && !IsPort(cut.authority.substr(colon + 1));
  return may_be_password && at != cut.path.npos ? cut.authority.size() + at + 1 : 0;
}

bool IsName(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

// "host", "host:443", "[::1]:443".
bool IsHost(absl::string_view text) {
  const bool is_v6 = absl::StartsWith(text, "[");
  const size_t name_end = is_v6 ? text.find(']') : std::min(text.find(':'), text.size());
  if (name_end == text.npos) return false;
  const absl::string_view port = text.substr(is_v6 ? name_end + 1 : name_end);
  if (!port.empty() && (port[0] != ':' || !IsPort(port.substr(1)))) return false;
  if (!is_v6) return IsName(text.substr(0, name_end));
  const absl::string_view address = text.substr(1, name_end - 1);
  return !address.empty() && std::all_of(address.begin(), address.end(), [](char c) {
    return absl::ascii_isxdigit(c) || c == ':' || c == '.';
  });
}

bool HasParentComponent(absl::string_view path) {
  for (const absl::string_view component : absl::StrSplit(path, '/')) {
    if (component == "..") return true;
  }
  return false;
}

absl::Status Invalid(absl::string_view url, absl::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrCat(ShownUrl(url), ": ", why));
}

absl::Status CheckWeb(absl::string_view url, const Cut& cut) {
  if (absl::StrContains(cut.query, '#')) {
    return Invalid(url, "has a fragment (what follows '#'), which names no object; remove it");
  }
  if (cut.authority.empty()) return Invalid(url, "names no host; write http://HOST/PATH");
  if (!IsHost(cut.authority)) return Invalid(url, "what follows '://' is no host");
  const std::string plain =
      absl::StrReplaceAll(cut.path, {{"%2e", "."}, {"%2E", "."}, {"%2f", "/"}, {"%2F", "/"}});
  if (HasParentComponent(plain)) return Invalid(url, "has a component '..'; write the path itself");
  if (cut.path.find_first_of("*[") != cut.path.npos) {
    return Invalid(url,
                   "has a wildcard, and servers of http have no listing; write the URL of each "
                   "file, with %2A and %5B for a * and a [ of its name");
  }
  return absl::OkStatus();
}

absl::Status CheckBucket(absl::string_view url, const Cut& cut) {
  if (cut.authority.empty()) {
    return Invalid(url, absl::StrCat("names no bucket; write ", cut.start, "BUCKET/KEY"));
  }
  if (!IsName(cut.authority) || cut.authority.front() == '.') {
    return Invalid(url, "its bucket may have letters, digits, '-', '_' and '.' only, no wildcards");
  }
  if (cut.path.size() <= 1) {
    return Invalid(url, absl::StrCat("names no object; write ", cut.start, "BUCKET/KEY"));
  }
  if (HasParentComponent(cut.path))
    return Invalid(url, "has a component '..'; write the key itself");
  return absl::OkStatus();
}

// Whether a query's parameter, in small letters, is a part of a signature.
bool IsOfSignature(absl::string_view name) {
  constexpr absl::string_view kNames[] = {
      // The older ones of Amazon and Google.
      "signature", "expires", "awsaccesskeyid", "googleaccessid",
      // CloudFront's.
      "key-pair-id", "policy",
      // Azure's.
      "sig", "se", "sp", "sr", "st", "sv", "spr", "sip", "skoid", "sktid", "skt", "ske", "sks",
      "skv"};
  return absl::StartsWith(name, "x-amz-") || absl::StartsWith(name, "x-goog-") ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// `written`: the URL for messages.
absl::StatusOr<ObjectUrl> Parse(absl::string_view url, absl::string_view written) {
  const std::optional<Cut> cut = CutUrl(url);
  if (!cut.has_value()) {
    return Invalid(written,
                   "is no URL of an object; it begins with s3://, gs://, https:// or http://");
  }
  if (std::any_of(url.begin(), url.end(), absl::ascii_iscntrl)) {
    return Invalid(written,
                   "has a control character, such as the end of a line; give the "
                   "object a name without it");
  }
  if (HiddenBytes(*cut) > 0) {
    return Invalid(written,
                   "has a user name or password, which would be shown wherever the spec is; "
                   "give credentials by the service's environment");
  }
  ObjectUrl parsed{cut->scheme, std::string(cut->authority), "", ""};
  const std::string scheme = absl::AsciiStrToLower(cut->start);
  if (parsed.is_bucket() && scheme != cut->start) {
    return Invalid(written, absl::StrCat("write ", scheme, " in small letters"));
  }
  BULKHEAD_RETURN_IF_ERROR(parsed.is_bucket() ? CheckBucket(written, *cut)
                                              : CheckWeb(written, *cut));
  if (!cut->path.empty()) parsed.key = std::string(cut->path.substr(1));
  if (!cut->query.empty()) parsed.query = std::string(cut->query.substr(1));
  return parsed;
}

}  // namespace

absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view url) { return Parse(url, url); }

absl::StatusOr<ObjectUrl> ParseFolderUrl(absl::string_view url) {
  // With a key, since a bucket alone is no URL of an object.
  BULKHEAD_ASSIGN_OR_RETURN(ObjectUrl parsed,
                            Parse(absl::StrCat(url, absl::EndsWith(url, "/") ? "x" : "/x"), url));
  parsed.key.pop_back();
  return parsed;
}

bool IsObjectUrl(absl::string_view text) { return CutUrl(text).has_value(); }

bool LooksLikeUrl(absl::string_view text) {
  if (IsObjectUrl(text)) return false;
  const bool is_known = std::any_of(kSchemes.begin(), kSchemes.end(), [&](const auto& scheme) {
    return absl::StartsWithIgnoreCase(text, scheme.first.substr(0, scheme.first.size() - 1));
  });
  const absl::string_view name = text.substr(0, text.find("://"));
  const bool has_scheme = name.size() > 1 && name.size() < text.size() &&
                          std::all_of(name.begin(), name.end(), [](char c) {
                            return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
                          });
  return is_known || has_scheme;
}

bool IsBelowUrl(absl::string_view url, absl::string_view root) {
  return IsObjectUrl(root) && absl::StartsWith(url, root) &&
         (absl::EndsWith(root, "/") || url.size() == root.size() || url[root.size()] == '/');
}

absl::Status UrlNotAllowed(absl::string_view url) {
  return MakeError(absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed,
                   absl::StrCat(ShownUrl(url),
                                ": this service may not read it; start bulkheadd with --root URL "
                                "for what it begins with, too"),
                   {{"file", ShownUrl(url)}});
}

std::string EscapedUrl(absl::string_view url) {
  std::string pattern;
  for (const char c : url) {
    if (absl::StrContains("*?[\\", c)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

absl::string_view WithoutQuery(absl::string_view url) {
  const std::optional<Cut> cut = CutUrl(url);
  return cut.has_value() ? url.substr(0, url.size() - cut->query.size()) : url;
}

uint64_t QueryNumber(absl::string_view url) {
  const std::optional<Cut> cut = CutUrl(url);
  if (!cut.has_value() || cut->query.empty()) return 0;
  std::vector<absl::string_view> kept;
  for (const absl::string_view parameter : absl::StrSplit(cut->query.substr(1), '&')) {
    const std::string name = absl::AsciiStrToLower(parameter.substr(0, parameter.find('=')));
    if (!parameter.empty() && !IsOfSignature(name)) kept.push_back(parameter);
  }
  if (kept.empty()) return 0;
  Sha256 hash;
  hash.Update(absl::StrJoin(kept, "&"));
  uint64_t number = 0;
  (void)absl::SimpleHexAtoi(hash.FinishHex().substr(0, 16), &number);
  return std::max<uint64_t>(number, 1);
}

std::string QueryMark(absl::string_view url) {
  const uint64_t number = QueryNumber(url);
  return number == 0 ? "" : absl::StrCat("?", absl::Hex(number, absl::kZeroPad16));
}

std::string FolderOfUrl(absl::string_view url) {
  url = WithoutQuery(url);
  return std::string(url.substr(0, url.rfind('/')));
}

bool NamesObject(absl::string_view folder, absl::string_view path) {
  return IsObjectUrl(path) || (IsObjectUrl(folder) && !absl::StartsWith(path, "/"));
}

std::string JoinUrl(absl::string_view folder, absl::string_view path) {
  const std::optional<Cut> cut = CutUrl(folder);
  if (!cut.has_value() || IsObjectUrl(path)) return std::string(path);
  std::vector<std::string> components = absl::StrSplit(cut->path, '/', absl::SkipEmpty());
  const bool is_web = cut->scheme == Scheme::kHttp || cut->scheme == Scheme::kHttps;
  for (const absl::string_view component : absl::StrSplit(path, '/')) {
    if (component.empty() || component == ".") continue;
    if (component == ".." && !components.empty()) {
      components.pop_back();
    } else {
      components.push_back(is_web ? PercentEncoded(component, "!$&'()+,;=:@")
                                  : std::string(component));
    }
  }
  return absl::StrCat(absl::AsciiStrToLower(cut->start), cut->authority, "/",
                      absl::StrJoin(components, "/"));
}

std::string ShownUrl(absl::string_view url) {
  const std::optional<Cut> cut = CutUrl(url);
  if (!cut.has_value()) return Printable(url);
  const std::string rest = absl::StrCat(cut->authority, cut->path);
  const size_t hidden = HiddenBytes(*cut);
  return Printable(absl::StrCat(cut->start, hidden > 0 ? "…@" : "", rest.substr(hidden)));
}

}  // namespace bulkhead
