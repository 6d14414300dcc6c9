#include "server/service/access/tls_files.h"

#include <spdlog/spdlog.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "server/base/certificate.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 20;

absl::Status Annotated(const absl::Status& status, const char* option, const std::string& path) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      option, " ", path, ": ", absl::StripPrefix(status.message(), absl::StrCat(path, ": "))));
}

absl::StatusOr<std::string> ReadText(const char* option, const std::string& path) {
  if (path.empty()) return std::string();
  const absl::StatusOr<FileInfo> info = StatFile(path);
  if (info.ok() && !info->is_regular) {  // a FIFO would be waited for
    return Annotated(absl::InvalidArgumentError("is no file"), option, path);
  }
  absl::StatusOr<std::string> text = ReadPrefix(path, kMostFileBytes);
  if (!text.ok()) return Annotated(text.status(), option, path);
  return text;
}

absl::Status CheckToken(const std::string& token) {
  if (token.empty()) {
    return absl::InvalidArgumentError(
        "is empty; write a token into it, such as `openssl rand -hex 32` prints");
  }
  if (token.size() < TlsFiles::kFewestTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the token has ", token.size(), " characters, at least ", TlsFiles::kFewestTokenBytes,
        " are needed; write one such as `openssl rand -hex 32` prints"));
  }
  for (const char c : token) {
    if (c > ' ' && c <= '~') continue;
    return absl::InvalidArgumentError(
        "holds more than a token, which is one line of letters, digits and signs without spaces");
  }
  return absl::OkStatus();
}

absl::StatusOr<TlsFiles::Content> ReadContent(const TlsFiles::Paths& paths) {
  TlsFiles::Content content;
  BULKHEAD_ASSIGN_OR_RETURN(content.certificate, ReadText("--tls-cert", paths.certificate));
  BULKHEAD_ASSIGN_OR_RETURN(content.key, ReadText("--tls-key", paths.key));
  BULKHEAD_ASSIGN_OR_RETURN(content.client_ca, ReadText("--tls-client-ca", paths.client_ca));
  BULKHEAD_ASSIGN_OR_RETURN(const std::string token,
                            ReadText("--token-instead-of-certificate", paths.token));
  BULKHEAD_RETURN_IF_ERROR(Annotated(CheckCertificateChain(content.certificate, absl::Now()),
                                     "--tls-cert", paths.certificate));
  BULKHEAD_RETURN_IF_ERROR(Annotated(CheckPrivateKey(content.key), "--tls-key", paths.key));
  BULKHEAD_RETURN_IF_ERROR(Annotated(CheckKeyFits(content.key, content.certificate), "--tls-key",
                                     absl::StrCat(paths.key, " for ", paths.certificate)));
  if (!paths.client_ca.empty()) {
    BULKHEAD_RETURN_IF_ERROR(
        Annotated(CheckAuthorities(content.client_ca), "--tls-client-ca", paths.client_ca));
  }
  if (!paths.token.empty()) {
    content.token = std::string(absl::StripAsciiWhitespace(token));
    BULKHEAD_RETURN_IF_ERROR(
        Annotated(CheckToken(content.token), "--token-instead-of-certificate", paths.token));
  }
  return content;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TlsFiles>> TlsFiles::Read(const Paths& paths) {
  BULKHEAD_ASSIGN_OR_RETURN(Content content, ReadContent(paths));
  return std::shared_ptr<TlsFiles>(new TlsFiles(paths, std::move(content)));
}

std::shared_ptr<const TlsFiles::Content> TlsFiles::current() const {
  absl::MutexLock lock(&mutex_);
  return content_;
}

void TlsFiles::RefreshSoon(const std::shared_ptr<TlsFiles>& files, IoThread& io) {
  if (files->refreshing_.exchange(true)) return;
  const bool posted = io.Post([files] {
    (void)files->Refresh();  // which logs a problem
    files->refreshing_ = false;
  });
  if (!posted) files->refreshing_ = false;
}

absl::Status TlsFiles::Refresh() {
  absl::StatusOr<Content> content = ReadContent(paths_);
  absl::MutexLock lock(&mutex_);
  if (!content.ok()) {
    const std::string wrong(content.status().message());
    if (wrong != told_) spdlog::warn("{}; what was there before stays in use", wrong);
    told_ = wrong;
    return content.status();
  }
  told_.clear();
  if (*content == *content_) return absl::OkStatus();
  content_ = std::make_shared<const Content>(*std::move(content));
  spdlog::info("the files of TLS have changed; new connections use what is there now");
  return absl::OkStatus();
}

}  // namespace bulkhead
