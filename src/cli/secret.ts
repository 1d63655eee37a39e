/** Reads credentials, never from arguments, which other users can read; and `tollgate secret rotate`. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { NewCredential } from '../catalog/add-upstream.ts'
import { count } from '../domain/text.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import { requireYes } from './catalog-changes.ts'
import { CommandError, usageError } from './command-error.ts'
import { askVault } from './control-client.ts'
import { type Context, printJson, toExamples, toPrintable, withStore } from './io.ts'

export function addSecret(group: Command, context: Context): void {
  group
    .command('rotate')
    .description('rotate the encryption key; safe to interrupt and re-run')
    .option('--yes', 'skip confirmation')
    .addHelpText('after', toExamples('secret rotate', 'secret rotate --yes --data /var/lib/tollgate'))
    .action((flags: { yes?: boolean }) => rotate(flags, context))
}

async function rotate({ yes = false }: { yes?: boolean }, io: Context): Promise<void> {
  if (await hasKey(io)) {
    io.stderr(toKeep(io.dataFolder))
    if (!yes && io.isTerminal(2)) await requireYes('Rotate the encryption key?', io)
  }
  const rotated = await withAdmin(io, {}, ({ operator }) => answerOf(operator.secret.rotate.post()))
  const { credentials, unopened, unopened_alerts: alerts } = rotated
  if (io.json) return printJson(io, rotated)
  io.stdout(`Re-encrypted ${count(credentials, 'credential')}.\n`)
  for (const id of unopened)
    io.stderr(
      `The credential of ${toPrintable(id)} could not be decrypted. Enter it again: tollgate upstreams edit ${toPrintable(id)} --key\n`,
    )
  for (const name of alerts)
    io.stderr(
      `The URL of alert target ${toPrintable(name)} could not be decrypted. Remove the target (tollgate alerts remove ${toPrintable(name)}), and add it again.\n`,
    )
}

/** False if the encryption key is missing: then rotating fails with an error. True if unknown. */
async function hasKey(io: Context): Promise<boolean> {
  const { dataFolder, environment } = io
  const { inspectVault } = await import('../store/vault.ts')
  const inspect = () =>
    withStore(io, { readonly: true }, ({ config }) => inspectVault(config, dataFolder, environment)).catch(() => null)
  const vault = (await askVault(dataFolder).catch(() => null)) ?? (await inspect())
  return vault === null || vault.sealed_by !== null || vault.credentials > 0
}

function toKeep(dataFolder: string): string {
  const path = join(dataFolder, 'secret')
  const before = 'Existing backups need the old encryption key to decrypt credentials'
  if (!existsSync(path)) return `note: ${before}. If it was in TOLLGATE_SECRET, keep it with them.\n`
  return `note: ${before}, and ${path} will be replaced. Copy that file first, or back it up: tollgate backup FILE --with-secret\n`
}

export interface CredentialFlags {
  /** Name of a variable. */
  keyEnv?: string
  keyStdin?: boolean
  /** False: no key. True: prompt for one. */
  key?: boolean
}

/** Undefined if no option is given. @param name of the provider or upstream. */
export async function readCredential(
  { keyEnv, keyStdin, key }: CredentialFlags,
  name: string,
  io: Context,
): Promise<NewCredential | undefined> {
  if ([keyEnv !== undefined, keyStdin === true, key !== undefined].filter(Boolean).length > 1)
    throw usageError('Pass only one of --key-env, --key-stdin, --key, and --no-key.')
  if (key === false) return null
  if (keyEnv !== undefined) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(keyEnv))
      // Don't quote it: it may be the credential.
      throw usageError('--key-env takes the name of a variable, e.g. OPENAI_API_KEY, not the key itself.')
    return { variable: keyEnv }
  }
  if (keyStdin) {
    const piped = await io.stdin()
    if (piped === null) throw usageError('--key-stdin needs piped input. Omit it to be prompted.')
    return { credential: requireCredential(piped) }
  }
  if (key === true) return { credential: await askCredential(name, io) }
  return undefined
}

export async function askCredential(name: string, io: Context, variables: readonly string[] = []): Promise<string> {
  const typed = await io.ask(`API key for ${name} (hidden): `, true)
  if (typed !== null) return requireCredential(typed)
  const [usual] = variables
  const set = usual === undefined ? 'Name a variable with --key-env' : `Set ${usual}`
  throw new CommandError(
    'no_credential',
    `No API key for ${name}. ${set}, pipe it in with --key-stdin, or run in a terminal. If none is required, pass --no-key.`,
  )
}

/** Must be a valid header value (RFC 9110, section 5.5). */
function requireCredential(text: string): string {
  const trimmed = text.trim()
  if (trimmed === '') throw new CommandError('no_credential', 'The key is empty. No changes made.')
  if (/^[\x21-\x7e]{1,4000}$/.test(trimmed)) return trimmed
  throw new CommandError(
    'no_credential',
    'The key must be 1 to 4000 printable ASCII characters without spaces. No changes made.',
  )
}
