/** What a running server makes of an upstream that was just changed: whether it has its credential. */
import type { Context } from './io.ts'
import { findServer } from './live.ts'

/** A server looks for changes forty times a second. */
const TRIES = 20
const PAUSE_MS = 50

/** Says on standard error where the server cannot use the upstream yet, and what to do. */
export async function warnOfServer(id: string, io: Context): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const found = await findServer(io.dataFolder)
    if (found.kind !== 'server') return
    const upstream = found.status.upstreams.find((one) => one.id === id)
    if (upstream) {
      if (upstream.credential === 'not_set')
        io.stderr(
          `note: the running server cannot use ${id}: ${upstream.reason ?? 'it lacks its credential'}. Start it anew with that, or have the key stored: tollgate upstreams edit ${id} --key\n`,
        )
      return
    }
    await Bun.sleep(PAUSE_MS)
  }
}
