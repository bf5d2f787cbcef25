// Loads the URLs of its input with net/http, and says what came.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func load(client *http.Client, url string) map[string]any {
	answer, err := client.Get(url)
	if err != nil {
		return map[string]any{"outcome": "failed", "error": err.Error()}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return map[string]any{"outcome": "failed", "error": err.Error()}
	}
	fields := map[string]string{"proxy-status": answer.Header.Get("Proxy-Status")}
	for _, name := range []string{"Content-Encoding", "Content-Type", "Etag", "X-A"} {
		if values := answer.Header.Values(name); len(values) > 0 {
			fields[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return map[string]any{
		"outcome": "whole", "status": answer.StatusCode, "fields": fields, "length": len(body),
		"uncompressed": answer.Uncompressed, "body": fmt.Sprintf("%x", sha256.Sum256(body)),
	}
}

func main() {
	client := &http.Client{Timeout: 5 * time.Second}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, _ := json.Marshal(load(client, lines.Text()))
		fmt.Println(string(text))
	}
}
