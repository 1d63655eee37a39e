/** One finding about what a gateway needs, as `doctor --json` prints it and the admin API answers. Pure. */

export interface Check {
  name: string
  status: 'ok' | 'warning' | 'problem'
  /** What was found and, where it is not well, what to do. */
  message: string
}

export const ok = (name: string, message: string): Check => ({ name, status: 'ok', message })
export const warning = (name: string, message: string): Check => ({ name, status: 'warning', message })
export const problem = (name: string, message: string): Check => ({ name, status: 'problem', message })

/** Names the first five, and how many there are besides. */
export const toFew = (names: readonly string[]) =>
  `${names.slice(0, 5).join(', ')}${names.length > 5 ? ` and ${names.length - 5} more` : ''}`
