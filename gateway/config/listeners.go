package config

// ListenerTLS names the PEM files of a listener that speaks TLS; the zero value is plain HTTP. They are read again when
// they change.
type ListenerTLS struct {
	CertFile string `yaml:"cert_file"` // its certificate, and the intermediate ones after it
	KeyFile  string `yaml:"key_file"`  // the certificate's private key, without a password
	// ClientCAFile has the authorities that sign the clients' certificates; "" asks clients for none.
	ClientCAFile string `yaml:"client_ca_file"`
}

// On reports whether the listener speaks TLS.
func (t ListenerTLS) On() bool { return t.CertFile != "" }

// checkListenerTLS checks the settings of a listener's files. The reader of the files checks their content.
func (r reader) checkListenerTLS(path string, t ListenerTLS) {
	if !r.Has(path) || !r.Sound(path) {
		return
	}
	r.checkPath(path+".cert_file", t.CertFile, "missing; give the path of the listener's certificate, a PEM file")
	r.checkPath(path+".key_file", t.KeyFile, "missing; give the path of the certificate's private key, a PEM file")
	if r.Has(path + ".client_ca_file") {
		r.checkPath(path+".client_ca_file", t.ClientCAFile, "")
	}
}
