/** Where a credential comes from that a command is given: never from its own words, which other users of the machine can read. */
import type { NewCredential } from '../catalog/add-upstream.ts'
import { CommandError, usageError } from './command-error.ts'
import type { Context } from './io.ts'

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
