/**
 * An open file of the journal, whose slow operations run beside the event loop. By the callbacks of `node:fs`, which the start
 * loads anyway: `node:fs/promises` would take it another tenth of its time.
 */
import { close, fdatasync, fsync, open, write } from 'node:fs'

export class OpenFile {
  private constructor(readonly fd: number) {}

  /** Each operation throws what the system says. */
  static async open(path: string, flags = 'r', mode?: number): Promise<OpenFile> {
    return new OpenFile(await resultOf<number>((done) => open(path, flags, mode, done)))
  }

  /** Writes the first so many bytes at a place; returns how many were taken. */
  write(bytes: Uint8Array, length: number, at: number): Promise<number> {
    return resultOf((done) => write(this.fd, bytes, 0, length, at, done))
  }

  sync(): Promise<void> {
    return resultOf((done) => fsync(this.fd, done))
  }

  /** The same, but for what nobody needs to read it again. */
  datasync(): Promise<void> {
    return resultOf((done) => fdatasync(this.fd, done))
  }

  /** Once. */
  close(): Promise<void> {
    return resultOf((done) => close(this.fd, done))
  }
}

type Done<T> = (error: Error | null, result?: T) => void

const resultOf = <T>(begin: (done: Done<T>) => void): Promise<T> =>
  new Promise((resolve, reject) => begin((error, result) => (error ? reject(error) : resolve(result as T))))
