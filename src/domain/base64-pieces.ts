/** Many MB of base64, as bytes from the upstream, in pieces. As text, each step would copy it. */
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
