/**
 * Secrets on the command line: where a credential comes from that a command is given (never from its own words, which other users of the
 * machine can read), and `tollgate secret rotate`.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { NewCredential } from '../catalog/add-upstream.ts'
import { count } from '../domain/text.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import { requireYes } from './catalog-changes.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toExamples, toPrintable } from './io.ts'

export function addSecret(group: Command, context: Context): void {
  group
    .command('rotate')
    .description('seal them all anew, by a new secret; may be cut off at any time, and done again')
    .option('--yes', 'ask nothing: for scripts')
    .addHelpText('after', toExamples('secret rotate', 'secret rotate --yes --data /var/lib/tollgate'))
    .action((flags: { yes?: boolean }) => rotate(flags, context))
}

/** What is not kept is told before it goes; whoever sits at a terminal has to say yes to it. */
async function rotate({ yes = false }: { yes?: boolean }, io: Context): Promise<void> {
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

export interface CredentialFlags {
  /** The variable that has it. */
  keyEnv?: string
  /** Whether it is piped in. */
  keyStdin?: boolean
  /** False: there is none. True: it is asked for. */
  key?: boolean
}

/**
 * Reads what was said; undefined where nothing was. Throws where it is wrong, or nobody is there to type it.
 * @param name whose it is.
 */
export async function readCredential(
  { keyEnv, keyStdin, key }: CredentialFlags,
  name: string,
  io: Context,
): Promise<NewCredential | undefined> {
  if ([keyEnv !== undefined, keyStdin === true, key !== undefined].filter(Boolean).length > 1)
    throw usageError('Say one of --key-env, --key-stdin, --key and --no-key.')
  if (key === false) return null
  if (keyEnv !== undefined) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(keyEnv))
      // Never quote it: it may be the credential itself.
      throw usageError(
        '--key-env takes the name of a variable, such as OPENAI_API_KEY, and never the credential itself.',
      )
    return { variable: keyEnv }
  }
  if (keyStdin) {
    const piped = await io.stdin()
    if (piped === null)
      throw usageError('--key-stdin reads what is piped in, and nothing is: leave it out to be asked.')
    return { credential: requireCredential(piped) }
  }
  if (key === true) return { credential: await askCredential(name, io) }
  return undefined
}

/** Asks for a credential at the terminal, where it is not shown. */
export async function askCredential(name: string, io: Context, variables: readonly string[] = []): Promise<string> {
  const typed = await io.ask(`Key of ${name} (it is not shown): `, true)
  if (typed !== null) return requireCredential(typed)
  const [usual] = variables
  const set = usual === undefined ? 'name a variable that has it with --key-env' : `set ${usual}`
  throw new CommandError(
    'no_credential',
    `There is no key of ${name}: ${set}, pipe it in with --key-stdin, or run this at a terminal, which asks for it. What needs none is added with --no-key.`,
  )
}

/** What goes into a header as it is (RFC 9110, section 5.5). */
function requireCredential(text: string): string {
  const trimmed = text.trim()
  if (trimmed === '') throw new CommandError('no_credential', 'The key is empty. Nothing was changed.')
  if (/^[\x21-\x7e]{1,4000}$/.test(trimmed)) return trimmed
  throw new CommandError(
    'no_credential',
    'That is no key: it has 1 to 4000 letters, digits and signs, and no spaces. Nothing was changed.',
  )
}
