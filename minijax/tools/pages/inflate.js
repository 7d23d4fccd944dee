// Decompresses deflate data (RFC 1951) encoded in base64. A step must be drawn at once, but the browser's own
// DecompressionStream is asynchronous, and some browsers lack it.

// A Huffman code as a table. Its index is the next `widest` bits of the data; an entry has the symbol and its length.
function tableOf(lengths) {
  const widest = Math.max(1, ...lengths);
  const entries = new Uint16Array(1 << widest);
  let word = 0;
  for (let length = 1; length <= widest; length += 1, word <<= 1) {
    lengths.forEach((own, symbol) => {
      if (own !== length) return;
      let mirrored = 0; // code words begin with their highest bit
      for (let bit = 0; bit < length; bit += 1) mirrored |= ((word >> bit) & 1) << (length - 1 - bit);
      for (let i = mirrored; i < entries.length; i += 1 << length) entries[i] = (symbol << 4) | length;
      word += 1;
    });
  }
  return { widest, entries };
}

// For each code of a length or a distance: its smallest value, and its number of extra bits.
const LENGTHS = [];
const DISTANCES = [];
for (let code = 0, base = 3; code < 28; code += 1) {
  const extra = code < 8 ? 0 : (code >> 2) - 1;
  LENGTHS.push([base, extra]);
  base += 1 << extra;
}
LENGTHS.push([258, 0]);
for (let code = 0, base = 1; code < 30; code += 1) {
  const extra = code < 4 ? 0 : (code >> 1) - 1;
  DISTANCES.push([base, extra]);
  base += 1 << extra;
}
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

function inflated(letters) {
  const binary = atob(letters);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
  let out = new Uint8Array(bytes.length * 8 + 1024);
  let size = 0;
  let at = 0;
  let held = 0;
  let count = 0;
  const fill = (wanted) => {
    for (; count < wanted; count += 8) held |= (bytes[at++] || 0) << count;
    if (at > bytes.length + 4) throw new Error("the data of this page ends early");
  };
  const bits = (wanted) => {
    fill(wanted);
    const found = held & ((1 << wanted) - 1);
    held >>>= wanted;
    count -= wanted;
    return found;
  };
  const symbol = ({ widest, entries }) => {
    fill(widest);
    const entry = entries[held & (entries.length - 1)];
    if (!entry) throw new Error("the data of this page is damaged");
    held >>>= entry & 15;
    count -= entry & 15;
    return entry >> 4;
  };
  const room = (more) => {
    if (size + more <= out.length) return;
    const larger = new Uint8Array(Math.max(out.length * 2, size + more));
    larger.set(out);
    out = larger;
  };
  const trees = () => {
    const [many, far, own] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const sizes = new Array(19).fill(0);
    for (let i = 0; i < own; i += 1) sizes[ORDER[i]] = bits(3);
    const table = tableOf(sizes);
    const all = [];
    while (all.length < many + far) {
      const next = symbol(table);
      if (next < 16) all.push(next);
      else if (next === 16) all.push(...new Array(3 + bits(2)).fill(all[all.length - 1]));
      else all.push(...new Array(next === 17 ? 3 + bits(3) : 11 + bits(7)).fill(0));
    }
    return [tableOf(all.slice(0, many)), tableOf(all.slice(many))];
  };
  const fixed = () => {
    const sizes = new Array(288).fill(8);
    sizes.fill(9, 144, 256).fill(7, 256, 280);
    return [tableOf(sizes), tableOf(new Array(30).fill(5))];
  };
  for (let last = 0; !last; ) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      at -= count >> 3;
      held = count = 0;
      const length = bytes[at] | (bytes[at + 1] << 8);
      at += 4;
      room(length);
      out.set(bytes.subarray(at, at + length), size);
      size += length;
      at += length;
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : trees();
    for (let next = symbol(literals); next !== 256; next = symbol(literals)) {
      if (next < 256) {
        room(1);
        out[size++] = next;
        continue;
      }
      const [shortest, more] = LENGTHS[next - 257];
      const length = shortest + bits(more);
      const [nearest, further] = DISTANCES[symbol(distances)];
      const distance = nearest + bits(further);
      room(length);
      for (let i = 0; i < length; i += 1, size += 1) out[size] = out[size - distance];
    }
  }
  return new TextDecoder().decode(out.subarray(0, size));
}
