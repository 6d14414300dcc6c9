#include "tests/metrics/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace bulkhead {

HttpClient::HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    socket_.reset();
  }
}

void HttpClient::Send(const std::string& bytes) {
  send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void HttpClient::EndSending() { shutdown(socket_.get(), SHUT_WR); }

std::string HttpClient::ReceiveAll() {
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = recv(socket_.get(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  return answer;
}

std::string HttpExchange(int port, const std::string& request) {
  HttpClient client(port);
  client.Send(request);
  return client.ReceiveAll();
}

std::string HttpGet(int port, const std::string& path) {
  return HttpExchange(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace bulkhead
