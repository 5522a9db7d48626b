package cost

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/internal/certtest"
)

const (
	tlsRounds   = 7
	tlsRequests = 320 // of a round
	tlsAtOnce   = 16
)

// BenchmarkTLS measures what a request costs the gateway in CPU time: without TLS, with TLS and HTTP/1.1, and with HTTP/2,
// where one connection carries all. Connections are kept. The clients take turns, and each ratio is the median of the rounds.
func BenchmarkTLS(b *testing.B) {
	cores := pin(b)
	before := []string{"taskset", "-c", cores.measured}
	mock := startRole(b, mockName, nil)
	ca := certtest.New(b)
	cert, key := ca.Issue(b, certtest.Leaf{}).Files(b)
	config := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npools: {only: {model: %s, backends: [\"http://%s\"]}}\nroutes: [{model: %s, target: only}]\n", mockModel, mock.addr, ownRoute)
	binary := foregateBinary(b)
	plain := startServe(b, before, binary, config)
	secure := startServe(b, before, binary, config+fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", cert, key))
	ways := []way{
		newWay("plain HTTP/1.1", plain, "http://", nil), newWay("TLS, HTTP/1.1", secure, "https://", ca.Pool), newWay("TLS, HTTP/2", secure, "https://", ca.Pool),
	}
	ways[2].client.Transport.(*http.Transport).Protocols.SetHTTP1(false)
	ways[2].client.Transport.(*http.Transport).Protocols.SetHTTP2(true)
	for b.Loop() {
		for name, body := range map[string]string{
			"whole answers": `"max_tokens":100`, "streams, token by token": `"stream":true,"max_tokens":20,` + mockPause + `4000"`,
		} {
			fmt.Println(name)
			took := make([][]float64, len(ways))
			for round := range tlsRounds + 1 { // the first one warms up
				for i := range ways {
					w := ways[(i+round)%len(ways)]
					cpu := w.round(b, body)
					if round > 0 {
						took[(i+round)%len(ways)] = append(took[(i+round)%len(ways)], cpu)
					}
				}
			}
			for i, w := range ways {
				var ratios []float64
				for r := range took[i] {
					ratios = append(ratios, took[i][r]/took[0][r])
				}
				slices.Sort(ratios)
				slices.Sort(took[i])
				fmt.Printf("  %-16s %6.1f µs of CPU per request, ratio %.2f (%.2f … %.2f)\n",
					w.name, took[i][tlsRounds/2]/1e3, ratios[tlsRounds/2], ratios[0], ratios[tlsRounds-1])
			}
		}
	}
	b.ReportMetric(0, "ns/op") // it would be the length of the run
}

// way is one way to the gateway.
type way struct {
	name, url string
	to        *party
	client    *http.Client
}

func newWay(name string, to *party, scheme string, trusted *x509.CertPool) way {
	versions := new(http.Protocols)
	versions.SetHTTP1(true)
	return way{name, scheme + to.addr + "/v1/chat/completions", to, &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted}, Protocols: versions, MaxIdleConnsPerHost: tlsAtOnce, DisableCompression: true,
	}}}
}

// round sends requests with these members, and returns the CPU time of one in nanoseconds.
func (w way) round(b *testing.B, members string) float64 {
	b.Helper()
	body := fmt.Sprintf(`{"model":%q,%s,"messages":[{"role":"user","content":%q}]}`, ownRoute, members, mockAsked+strings.Repeat(" word", 100))
	var left atomic.Int64
	left.Store(tlsRequests)
	began := w.to.cpu(b)
	var clients sync.WaitGroup
	for range tlsAtOnce {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := w.client.Post(w.url, "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("status %d, %v", resp.StatusCode, err)
					return
				}
			}
		})
	}
	clients.Wait()
	return (w.to.cpu(b) - began) / tlsRequests
}
