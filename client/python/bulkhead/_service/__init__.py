"""Where the service is: an address, or a service that is started, shared and replaced here."""
