package http1

import (
	"io"
	"time"
)

// Body is the body of a response. It is used by one goroutine. To end it from another, end the context of the request.
type Body interface {
	// Read returns what has come of the body, at least a byte of it if p has room. The error is io.EOF at the body's end, also
	// together with the last bytes; io.ErrUnexpectedEOF if the connection ends before that; [ErrTimeout]; one that matches
	// [ErrMalformed]; or one of the connection.
	Read(p []byte) (int, error)
	// SetWait bounds the time of the following reads together, counted from the beginning of the first. 0 is no bound.
	SetWait(d time.Duration)
	// Close frees the connection if the body was read to its end, and closes it otherwise, which tells the server to stop. It is
	// idempotent.
	Close()
}

// framing is how the end of a body is told.
type framing uint8

const (
	byLength framing = iota
	byChunks
	byClose // of the connection
)

// body is the body of a response. Its connection is freed at its end, before Close.
type body struct {
	pools    *pools
	conn     *pooledConn // nil behind the end
	stop     func() bool
	framing  framing
	reusable bool  // the connection, if the body ends as it should
	left     int64 // bytes to come, byLength
	chunks   chunks

	wait  time.Duration // of SetWait, until the next read begins
	until time.Time     // the bound of reads; zero is none
	err   error         // of all further reads
}

// SetWait implements [Body].
func (b *body) SetWait(d time.Duration) { b.wait, b.until = d, time.Time{} }

// Close implements [Body].
func (b *body) Close() {
	if b.conn != nil {
		b.end(ErrClosed)
	}
}

// Read implements [Body].
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.wait > 0 {
		b.until, b.wait = time.Now().Add(b.wait), 0
	}
	var n int
	var err error
	switch b.framing {
	case byLength:
		n, err = b.readLength(p)
	case byChunks:
		n, err = b.readChunks(p)
	case byClose:
		n, err = b.readSome(p)
	}
	if err != nil {
		b.end(err)
	}
	return n, err
}

// readSome reads what there is: from the connection's buffer, or else from the connection.
func (b *body) readSome(p []byte) (int, error) {
	if n := b.conn.take(p); n > 0 {
		return n, nil
	}
	return b.conn.read(p, b.until)
}

func (b *body) readLength(p []byte) (int, error) {
	n, err := b.readSome(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readChunks reads into p, and decodes it there.
func (b *body) readChunks(p []byte) (int, error) {
	for {
		came, err := b.readSome(p)
		if err == io.EOF {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		n, used, err := b.chunks.decode(p[:came])
		switch {
		case err != nil:
			return n, err
		case b.chunks.at == atEnd:
			b.reusable = b.reusable && used == came
			return n, io.EOF
		case n > 0:
			return n, nil
		}
	}
}

// end ends the body: further reads return err. The connection is kept after io.EOF if nothing came behind the body.
func (b *body) end(err error) {
	c := b.conn
	b.err, b.conn = err, nil
	going := b.stop() // false: ctx ended, and closes the connection
	if going && b.reusable && err == io.EOF && c.end == c.start && c.isSent() {
		c.used = true
		b.pools.put(c)
		return
	}
	b.pools.discard(c)
}
