/** What a running server makes of an upstream that was just changed: whether it has its credential. */

import { findServer } from './control-client.ts'
import { type Context, toOneLine } from './io.ts'

/** Says on standard error where the server cannot use the upstream yet, and what to do. */
export async function warnOfServer(id: string, io: Context): Promise<void> {
  const found = await findServer(io.dataFolder)
  if (found.kind !== 'server') return
  const upstream = found.status.upstreams.find((one) => one.id === id)
  if (upstream?.credential === 'not_set')
    io.stderr(
      `note: the running server cannot use ${id}: ${toOneLine(upstream.reason ?? 'it lacks its credential')}. Start it anew with that, or have the key stored: tollgate upstreams edit ${id} --key\n`,
    )
}
