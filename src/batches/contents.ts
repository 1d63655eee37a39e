/** Contents of files and progress of batches, in `batches/` of the data folder. Only the owner has access. */
import { createReadStream, mkdirSync, rmSync, statSync } from 'node:fs'
import { appendFile, open, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../domain/error.ts'
import { filesIn, freeBytesOf, SPARED_BYTES } from '../store/files.ts'
import { isDiskFull } from '../store/refusal.ts'

/** Disk space left for the journal and the database. */
const SPARED = 4 * SPARED_BYTES

export const storageFull = (cause?: unknown) =>
  new GatewayError(
    'storage_full',
    "The server's disk is full, so nothing was stored. Ask your administrator to free disk space, and try again.",
    { cause },
  )

const PART = '.part'

/** Bytes, or a part of a file. */
export type Content = Uint8Array | { path: string; start: number; length: number }

/** Both ends are inclusive. */
const toRange = ({ start, length }: { start: number; length: number }) => ({ start, end: start + length - 1 })

export interface Part extends AsyncDisposable {
  write(piece: Uint8Array): Promise<void>
  /** Returns its path. */
  finish(): Promise<string>
}

export class Contents {
  readonly #folder: string

  constructor(dataFolder: string) {
    this.#folder = join(dataFolder, 'batches')
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
  }

  path(name: string): string {
    return join(this.#folder, name)
  }

  names(): string[] {
    return filesIn(this.#folder)
  }

  hasSpace(bytes: number): boolean {
    return freeBytesOf(this.#folder) >= bytes + SPARED
  }

  /** 0 if missing. */
  size(name: string): number {
    return statSync(this.path(name), { throwIfNoEntry: false })?.size ?? 0
  }

  exists(name: string): boolean {
    return statSync(this.path(name), { throwIfNoEntry: false }) !== undefined
  }

  /** A file that is removed when disposed. Its writes throw `storage_full`. */
  async openPart(name: string): Promise<Part> {
    const path = `${this.path(name)}${PART}`
    const file = await open(path, 'wx', 0o600)
    let isOpen = true
    const close = async () => {
      if (isOpen) await file.close()
      isOpen = false
    }
    return {
      async write(piece) {
        try {
          for (let at = 0; at < piece.length; ) at += (await file.write(piece, at)).bytesWritten
        } catch (error) {
          throw isDiskFull(error) ? storageFull(error) : error
        }
      },
      async finish() {
        await close()
        return path
      },
      async [Symbol.asyncDispose]() {
        await close()
        await rm(path, { force: true })
      },
    }
  }

  /** Writes all or nothing. Throws `storage_full`. */
  async put(name: string, content: Content): Promise<void> {
    if (!this.hasSpace(content.length)) throw storageFull()
    const part = `${this.path(name)}${PART}`
    try {
      const written = content instanceof Uint8Array ? content : createReadStream(content.path, toRange(content))
      await writeFile(part, written, { mode: 0o600, flush: true })
      await rename(part, this.path(name))
    } catch (error) {
      await rm(part, { force: true }).catch(() => {})
      throw isDiskFull(error) ? storageFull(error) : error
    }
  }

  /** Writes all or nothing, after the first `size` bytes. Throws the system's error. */
  async append(name: string, text: string, size: number, isSynced = false): Promise<number> {
    const path = this.path(name)
    try {
      await appendFile(path, text, { mode: 0o600, flush: isSynced })
    } catch (error) {
      await truncate(path, size).catch(() => {})
      throw error
    }
    return size + Buffer.byteLength(text)
  }

  /** Truncates to `size` bytes. */
  async cut(name: string, size: number): Promise<void> {
    if (this.size(name) > size) await truncate(this.path(name), size)
  }

  async read(name: string, start: number, end: number): Promise<string> {
    const file = await open(this.path(name))
    try {
      const bytes = Buffer.allocUnsafe(end - start)
      let at = 0
      while (at < bytes.length) {
        const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at)
        if (bytesRead === 0) throw new Error(`${name} is shorter than it was`)
        at += bytesRead
      }
      return bytes.toString()
    } finally {
      await file.close()
    }
  }

  remove(name: string): void {
    rmSync(this.path(name), { force: true })
  }
}
