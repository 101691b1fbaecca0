// Elements of tensors as JSON text, or as bytes where they come from a file. No page here.

export const MADE = ["zeros", "ones", "random"];

export const countOf = (shape) => shape.reduce((product, dim) => product * dim, 1);
export const numbers = (text) => text.split(",").filter((part) => part.trim()).map(Number);

export function example(datatype, count) {
  const one = datatype === "BYTES" ? "text" : datatype === "BOOL" ? true : 0;
  return JSON.stringify(Array.from({ length: count }, () => one));
}

// `count` elements of one of the kinds MADE.
export function made(kind, datatype, count) {
  const number = { zeros: () => 0, ones: () => 1, random: () => random(datatype) }[kind];
  const value = { BYTES: String, BOOL: (each) => each % 2 === 1 }[datatype] ?? ((each) => each);
  return JSON.stringify(Array.from({ length: count }, () => value(number())));
}

// A number that each of the datatypes can have.
function random(datatype) {
  if (/F/.test(datatype)) return Math.round(Math.random() * 1000) / 1000;
  return Math.floor(Math.random() * (datatype === "UINT8" ? 256 : 128));
}

// Dimensions for so many elements: the last one of any size takes all that is left, others of any size are 1.
export function fitted(dims, count) {
  const shape = dims.map((dim) => Math.max(1, dim)), last = dims.lastIndexOf(-1);
  if (last >= 0) shape[last] = Math.floor(count / countOf(shape));
  return shape;
}

// As in binary tensors: an element of BYTES has its length in front, in four bytes.
export async function ofFile(datatype, file) {
  if (!file) throw new Error("no file is chosen");
  const content = new Uint8Array(await file.arrayBuffer());
  if (datatype !== "BYTES") return { bytes: content, content };
  const bytes = new Uint8Array(4 + content.length);
  new DataView(bytes.buffer).setUint32(0, content.length, true);
  bytes.set(content, 4);
  return { bytes, content };
}

// The tensor as generate takes it: nested as its shape says. Numbers stay as they were typed.
export function nested({ name, datatype, shape, text, content }) {
  const elements = content ? elementsOf(name, datatype, content) : (text.match(/"(?:[^"\\]|\\.)*"|[^\s,[\]]+/g) ?? []);
  if (!elements.length || countOf(shape) !== elements.length) return content ? `[${elements}]` : text; // the server says what is wrong
  return shape.reduceRight(grouped, elements)[0];
}

function grouped(elements, size) {
  const lists = [];
  for (let at = 0; at < elements.length; at += size) lists.push(`[${elements.slice(at, at + size)}]`);
  return lists;
}

function elementsOf(name, datatype, content) {
  if (datatype !== "BYTES") return [...content];
  try {
    return [JSON.stringify(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content))];
  } catch {
    throw new Error(`${name}: the file is no text, and a model with any number of responses takes only text from a browser`);
  }
}
