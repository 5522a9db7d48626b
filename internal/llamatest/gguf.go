package llamatest

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
)

// The file format is GGUF 3, as in ggml's description of it.
const (
	ggufVersion = 3
	alignment   = 32 // bytes, of the tensors' data

	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9

	tensorF32 = 0
)

// gguf is a model file in the making. Matrices are of float32.
type gguf struct {
	values  bytes.Buffer
	count   uint64 // of the values
	tensors []tensor
}

// tensor is a vector or a matrix: rows of columns, row after row.
type tensor struct {
	name          string
	columns, rows int // rows is 0 for a vector
	data          []float32
}

func (g *gguf) key(name string, kind uint32) {
	g.count++
	putString(&g.values, name)
	put(&g.values, kind)
}

func (g *gguf) number(name string, v uint32) { g.key(name, typeUint32); put(&g.values, v) }

func (g *gguf) float(name string, v float32) {
	g.key(name, typeFloat32)
	put(&g.values, math.Float32bits(v))
}

func (g *gguf) text(name, v string) { g.key(name, typeString); putString(&g.values, v) }

func (g *gguf) flag(name string, v bool) {
	g.key(name, typeBool)
	put(&g.values, v)
}

func (g *gguf) texts(name string, all []string) {
	g.key(name, typeArray)
	put(&g.values, uint32(typeString))
	put(&g.values, uint64(len(all)))
	for _, v := range all {
		putString(&g.values, v)
	}
}

func (g *gguf) numbers(name string, all []int32) {
	g.key(name, typeArray)
	put(&g.values, uint32(typeInt32))
	put(&g.values, uint64(len(all)))
	put(&g.values, all)
}

// write writes the file.
func (g *gguf) write(path string) error {
	var b bytes.Buffer
	b.WriteString("GGUF")
	put(&b, uint32(ggufVersion))
	put(&b, uint64(len(g.tensors)))
	put(&b, g.count)
	b.Write(g.values.Bytes())
	offset := 0
	for i := range g.tensors {
		t := &g.tensors[i]
		putString(&b, t.name)
		if t.rows == 0 {
			put(&b, uint32(1))
			put(&b, uint64(t.columns))
		} else {
			put(&b, uint32(2))
			put(&b, [2]uint64{uint64(t.columns), uint64(t.rows)})
		}
		put(&b, uint32(tensorF32))
		put(&b, uint64(offset))
		offset += aligned(4 * len(t.data))
	}
	pad(&b)
	for i := range g.tensors {
		put(&b, g.tensors[i].data)
		pad(&b)
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

func aligned(n int) int { return (n + alignment - 1) / alignment * alignment }

func pad(b *bytes.Buffer) { b.Write(make([]byte, aligned(b.Len())-b.Len())) }

// put appends a value of fixed size.
func put(b *bytes.Buffer, v any) {
	_ = binary.Write(b, binary.LittleEndian, v) // a buffer takes everything
}

func putString(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}
