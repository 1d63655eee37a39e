/** One connection of the scripted upstream, so that a script reads sequentially. Independent of HTTP. */
import type { Socket } from 'node:net'

/** Writes wait for buffer space, and every wait ends when the client disconnects. */
export interface Line {
  gone: boolean
  onGone: () => void
  write(bytes: Uint8Array | string): Promise<void>
  sleep(ms: number): Promise<void>
  close(): void
  reset(): void
}

/** Wraps an accepted socket. */
export function createLine(socket: Socket): Line {
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const resume of [...waiting]) resume()
  }
  const pause = (ms: number | null) =>
    new Promise<void>((resolve) => {
      const resume = () => {
        waiting.delete(resume)
        clearTimeout(timer)
        resolve()
      }
      const timer = ms === null ? undefined : setTimeout(resume, ms)
      waiting.add(resume)
    })
  const line: Line = {
    gone: false,
    onGone: () => {},
    async write(bytes) {
      if (line.gone || socket.write(bytes)) return
      await pause(null)
    },
    async sleep(ms) {
      if (!line.gone) await pause(ms)
    },
    close: () => void socket.end(),
    reset: () => void socket.resetAndDestroy(),
  }
  const leave = () => {
    if (line.gone) return
    line.gone = true
    line.onGone()
    wake()
  }
  socket.on('drain', wake)
  // A FIN during a response is a disconnect: HTTP clients don't half-close.
  socket.on('end', leave)
  socket.on('close', leave)
  socket.on('error', leave)
  return line
}
