// A server of Go's standard library over HTTP/2, as origin and as control of h2spec: h2control CERTIFICATE KEY. It prints its
// port on 127.0.0.1.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			if _, err := io.Copy(io.Discard, request.Body); err == nil {
				response.Header().Set("Content-Type", "text/plain")
				fmt.Fprintln(response, "a body of the origin, long enough for windows")
			}
		}),
	}
	log.Fatal(server.ServeTLS(listener, os.Args[1], os.Args[2]))
}
