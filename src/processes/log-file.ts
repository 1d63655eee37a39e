/**
 * What a server writes, in a file of bounded size: once half of that is full it becomes `<file>.1`, in whose place it is. Never
 * throws, and never holds up the server: what the disk does not take in time is left out.
 */
import { appendFile, rename, stat } from 'node:fs/promises'

export const LOG_BYTES = 4 * 1024 * 1024
/** So much waits for the disk. */
const MAX_WAITING = 1024 * 1024

export class LogFile {
  readonly #path: string
  readonly #mostBytes: number
  #waiting: string[] = []
  #waitingChars = 0
  #bytes: number | null = null
  #writing: Promise<void> | null = null

  /** @param mostBytes of both files together. */
  constructor(path: string, mostBytes = LOG_BYTES) {
    this.#path = path
    this.#mostBytes = mostBytes
  }

  write(text: string): void {
    if (this.#waitingChars > MAX_WAITING) return
    this.#waiting.push(text)
    this.#waitingChars += text.length
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null
    })
  }

  /** Resolves once what was written so far is in the file, or lost. */
  flush(): Promise<void> {
    return this.#writing ?? Promise.resolve()
  }

  async #writeAll(): Promise<void> {
    try {
      this.#bytes ??= (await stat(this.#path).catch(() => null))?.size ?? 0
      while (this.#waiting.length > 0) {
        const text = this.#waiting.join('').slice(0, this.#mostBytes / 2)
        this.#waiting = []
        this.#waitingChars = 0
        const bytes = Buffer.byteLength(text)
        if (this.#bytes > 0 && this.#bytes + bytes > this.#mostBytes / 2) {
          await rename(this.#path, `${this.#path}.1`)
          this.#bytes = 0
        }
        await appendFile(this.#path, text, { mode: 0o600 })
        this.#bytes += bytes
      }
    } catch {
      // A full disk must not end a server that answers.
      this.#waiting = []
      this.#waitingChars = 0
      this.#bytes = null
    }
  }
}
