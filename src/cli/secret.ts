/** `tollgate secret rotate`: the running server does it, with its own environment; where none runs, this process. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { count } from '../domain/text.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import { requireYes } from './catalog-changes.ts'
import { type Context, printJson, toPrintable } from './io.ts'

/** What is not kept is told before it goes; whoever sits at a terminal has to say yes to it. */
export async function rotate({ yes = false }: { yes?: boolean }, io: Context): Promise<void> {
  io.stderr(toKeep(io.dataFolder))
  if (!yes && io.isTerminal(2)) await requireYes('Replace it?', io)
  const { credentials, unopened } = await withAdmin(io, {}, ({ operator }) => answerOf(operator.secret.rotate.post()))
  if (io.json) return printJson(io, { credentials, unopened })
  io.stdout(`${count(credentials, 'credential')} sealed anew.\n`)
  for (const id of unopened) io.stderr(`That of ${toPrintable(id)} did not open before either: type it in again.\n`)
}

function toKeep(dataFolder: string): string {
  const path = join(dataFolder, 'secret')
  const before = 'Credentials in backups of before are opened by the secret of before alone'
  if (!existsSync(path)) return `note: ${before}: where TOLLGATE_SECRET had that one, keep it with them.\n`
  return `note: ${before}, and the file ${path} is replaced. Where you keep such backups, copy that file first, or have a backup with it: tollgate backup FILE --with-secret\n`
}
