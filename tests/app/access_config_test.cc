#include "server/app/access_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace bulkhead {
namespace {

using testing::HasSubstr;

// What is wrong with a service at `address` with what `set` sets; empty: nothing.
std::string Fault(const std::string& address, const std::function<void(DaemonOptions&)>& set = {}) {
  DaemonOptions options;
  if (set) set(options);
  LoaderServer::Config config;
  config.address = address;
  return std::string(ConfigureAccess(options, config).message());
}

void WithCertificate(DaemonOptions& options) {
  options.tls_cert = "/none/cert.pem";
  options.tls_key = "/none/key.pem";
}

TEST(AccessConfigTest, AUnixSocketNeedsNothingAndTakesNoTls) {
  EXPECT_EQ(Fault("unix:/run/x.sock"), "");
  EXPECT_THAT(Fault("unix:/run/x.sock", WithCertificate),
              HasSubstr("--tls-cert is for TCP, and the service listens on unix:/run/x.sock"));
  EXPECT_THAT(Fault("unix:/run/x.sock", [](auto& o) { o.allow_operate = {"me"}; }),
              HasSubstr("--allow-operate is for TCP"));
}

TEST(AccessConfigTest, TheLoopbackWithoutTlsMustBeMeant) {
  for (const char* address : {"127.0.0.1:0", "127.1.2.3:7077", "localhost:7077", "[::1]:7077"}) {
    EXPECT_EQ(Fault(address, [](auto& o) { o.insecure_tcp = true; }), "") << address;
    EXPECT_THAT(Fault(address), HasSubstr("say --insecure-tcp")) << address;
  }
}

TEST(AccessConfigTest, OtherAddressesNeedTls) {
  for (const char* address : {"0.0.0.0:7077", "[::]:7077", "10.0.0.1:7077", "loader:7077"}) {
    EXPECT_THAT(Fault(address), HasSubstr("give --tls-cert, --tls-key, --tls-client-ca and"));
    EXPECT_THAT(Fault(address, [](auto& o) { o.insecure_tcp = true; }),
                HasSubstr("beyond the loopback only TLS is spoken"));
  }
}

TEST(AccessConfigTest, WhatIsNoAddressIsRefused) {
  for (const char* address : {"loader", "loader:", "loader:x", "loader:65536", "/run/x.sock"}) {
    EXPECT_THAT(Fault(address), HasSubstr("write unix:/path, or an address with a port"))
        << address;
  }
}

TEST(AccessConfigTest, AUnixSocketHasAPath) {
  for (const char* address : {"unix:", "unix://"}) {
    EXPECT_THAT(Fault(address), HasSubstr("the path is missing; write unix:/path")) << address;
  }
}

TEST(AccessConfigTest, RightsDoNotDependOnFiles) {
  DaemonOptions options;
  WithCertificate(options);
  options.tls_client_ca = "/none/ca.pem";
  options.allow_stream = {"job-a"};
  EXPECT_TRUE(RightsOf(options, "0.0.0.0:7077", nullptr).ok());
  options.tls_key.clear();
  EXPECT_FALSE(RightsOf(options, "0.0.0.0:7077", nullptr).ok());
}

TEST(AccessConfigTest, TlsAndItsAbsenceExcludeEachOther) {
  EXPECT_THAT(Fault("127.0.0.1:0",
                    [](auto& o) {
                      WithCertificate(o);
                      o.insecure_tcp = true;
                    }),
              HasSubstr("leave one of them out"));
}

TEST(AccessConfigTest, WhatBelongsTogetherMustBeThere) {
  const auto fault = [](const std::function<void(DaemonOptions&)>& set) {
    return Fault("0.0.0.0:0", set);
  };
  EXPECT_THAT(fault([](auto& o) { o.tls_cert = "/c"; }), HasSubstr("--tls-cert without --tls-key"));
  EXPECT_THAT(fault([](auto& o) { o.tls_key = "/k"; }), HasSubstr("--tls-key without --tls-cert"));
  EXPECT_THAT(fault([](auto& o) { o.allow_stream = {"a"}; }), HasSubstr("without --tls-cert"));
  EXPECT_THAT(fault(WithCertificate), HasSubstr("does not say who may connect"));
  EXPECT_THAT(fault([](auto& o) {
                WithCertificate(o);
                o.allow_stream = {"a"};
              }),
              HasSubstr("give the authority that signs these with --tls-client-ca"));
  EXPECT_THAT(fault([](auto& o) {
                WithCertificate(o);
                o.tls_client_ca = "/ca";
              }),
              HasSubstr("no client would have a right"));
  EXPECT_THAT(fault([](auto& o) {
                WithCertificate(o);
                o.tls_client_ca = "/ca";
                o.allow_stream = {"a"};
                o.token_rights = {"status"};
              }),
              HasSubstr("there is no token"));
}

TEST(AccessConfigTest, MetricsBeyondTheLoopbackMustBeMeant) {
  const auto fault = [](const char* address, bool meant) {
    return Fault("unix:/run/x.sock", [&](auto& o) {
      o.metrics = address;
      o.insecure_metrics = meant;
    });
  };
  for (const char* address : {"127.0.0.1:0", "[::1]:9464"}) EXPECT_EQ(fault(address, false), "");
  for (const char* address : {"0.0.0.0:9464", "[::]:9464", "10.0.0.1:9464"}) {
    EXPECT_THAT(fault(address, false), HasSubstr("give --insecure-metrics")) << address;
    EXPECT_EQ(fault(address, true), "") << address;
  }
  EXPECT_THAT(fault("localhost:1", true), HasSubstr("write an IP address"));
}

TEST(AccessConfigTest, FilesAreReadAtOnce) {
  EXPECT_THAT(Fault("0.0.0.0:0",
                    [](auto& o) {
                      WithCertificate(o);
                      o.token_instead_of_certificate = "/none/token";
                    }),
              HasSubstr("--tls-cert /none/cert.pem: "));
}

TEST(AccessConfigTest, DatasetsAndTheRightToBringThemBelongTogether) {
  const auto tls = [](const auto& change) {
    return Fault("127.0.0.1:0", [&](auto& o) {
      WithCertificate(o);
      o.tls_client_ca = "/none/ca.pem";
      o.allow_stream = {"a"};
      change(o);
    });
  };
  EXPECT_THAT(tls([](auto& o) { o.allow_code = {"a"}; }), HasSubstr("without --allow-datasets"));
  EXPECT_THAT(tls([](auto& o) { o.allow_datasets = true; }), HasSubstr("give --allow-code NAME"));
  EXPECT_THAT(tls([](auto& o) {
                o.token_instead_of_certificate = "/none/token";
                o.token_rights = {"code"};
              }),
              HasSubstr("--token-rights code without --allow-datasets"));
  EXPECT_THAT(tls([](auto& o) {
                o.allow_datasets = true;
                o.allow_code = {"a"};
              }),
              HasSubstr("/none/cert.pem"))
      << "nothing else is wrong";
  EXPECT_THAT(Fault("127.0.0.1:0",
                    [](auto& o) {
                      WithCertificate(o);
                      o.tls_client_ca = "/none/ca.pem";
                    }),
              HasSubstr("or, with --allow-datasets, --allow-code NAME"));
  EXPECT_EQ(Fault("unix:/run/x.sock", [](auto& o) { o.allow_datasets = true; }), "");
  EXPECT_EQ(Fault("unix:/run/x.sock",
                  [](auto& o) {
                    o.allow_datasets = true;
                    o.dataset_bytes = "2GiB";
                  }),
            "");
  EXPECT_THAT(Fault("unix:/run/x.sock", [](auto& o) { o.dataset_bytes = "2GiB"; }),
              HasSubstr("--dataset-bytes without --allow-datasets: the service takes no datasets"));
  EXPECT_THAT(Fault("127.0.0.1:0",
                    [](auto& o) {
                      o.insecure_tcp = true;
                      o.allow_datasets = true;
                    }),
              HasSubstr("every local user could run code"));
}

TEST(AccessConfigTest, AnEmptyNameIsNoName) {
  for (const auto allow : {&DaemonOptions::allow_stream, &DaemonOptions::allow_status,
                           &DaemonOptions::allow_operate, &DaemonOptions::allow_code}) {
    EXPECT_THAT(Fault("127.0.0.1:0",
                      [&](auto& o) {
                        WithCertificate(o);
                        o.tls_client_ca = "/none/ca.pem";
                        o.allow_datasets = allow == &DaemonOptions::allow_code;
                        o.*allow = {"job-a", ""};
                      }),
                HasSubstr("a name is empty, which would allow certificates without a name"));
  }
}

}  // namespace
}  // namespace bulkhead
