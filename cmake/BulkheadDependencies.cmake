# Everything comes from Debian packages (scripts/setup.sh); nothing is downloaded at configure time.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
include(BulkheadOpenCV)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
# For the plugin of rare formats, which may be absent.
pkg_check_modules(TIFF IMPORTED_TARGET libtiff-4>=4.5)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
# By header and library: Debian's CMake files of prometheus-cpp and CivetWeb ask for libcurl and for CivetWeb's own
# server program as well.
find_path(CIVETWEB_INCLUDE_DIR civetweb.h REQUIRED)
find_library(CIVETWEB_LIBRARY civetweb REQUIRED)
add_library(civetweb_server UNKNOWN IMPORTED)
set_target_properties(civetweb_server PROPERTIES
  IMPORTED_LOCATION ${CIVETWEB_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${CIVETWEB_INCLUDE_DIR})
