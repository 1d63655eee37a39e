/** Base64 of many MB as the bytes of an upstream, in pieces: as text, it would be copied by each step. */
export class Base64Pieces {
  readonly length: number

  constructor(readonly pieces: readonly Uint8Array[]) {
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  }

  toString(): string {
    return Buffer.concat(this.pieces).toString()
  }

  toJSON(): string {
    return this.toString()
  }
}
