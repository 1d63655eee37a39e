/** Has whoever sits at the terminal say yes to what was shown, before anything is changed. */
import { CommandError, usageError } from './command-error.ts'
import type { Context } from './io.ts'

export interface DecideFlags {
  plan?: boolean
  yes?: boolean
}

/** Refuses words that ask for both, or leave a script waiting. */
export function requireDecided({ yes, plan }: DecideFlags, io: Context): void {
  if (yes && plan) throw usageError('--plan changes nothing, and --yes does: say one of them.')
  if (io.json && !yes && !plan) throw usageError('--json asks nothing: say --yes, or --plan.')
}

/** @param question such as `Add this?`. Throws `not_decided` where the answer is no, or nobody answers. */
export async function requireYes(question: string, io: Context): Promise<void> {
  const answer = await io.ask(`${question} [Y/n] `, false)
  if (answer === null)
    throw new CommandError('not_decided', 'Nothing is changed yet: say --yes, or run this at a terminal, which asks.')
  if (!/^(y|yes)?$/i.test(answer.trim())) throw new CommandError('not_decided', 'Nothing was changed.')
}
