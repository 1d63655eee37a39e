/** Texts of users and sessions. */

export const toOptions = ({ choices = {} }: { choices?: Readonly<Record<string, string>> }) =>
  Object.entries(choices).map(([word, meaning]) => [word, `${word}: ${meaning}`] as const)

export const STATUS_KINDS = { active: 'good', invited: 'warn', disabled: 'off' } as const

/** Such as `Firefox on Linux`; for other clients, the name they send. */
export function toBrowser(agent: string): string {
  const browser = BROWSERS.find(([, pattern]) => pattern.test(agent))?.[0]
  const system = SYSTEMS.find(([, pattern]) => pattern.test(agent))?.[0]
  if (browser === undefined) return agent.split(/[\s/]/, 1)[0] || 'unknown client'
  return system === undefined ? browser : `${browser} on ${system}`
}

/** Order matters: some browsers also send the name of a later one. */
const BROWSERS: readonly [string, RegExp][] = [
  ['Edge', /Edg(e|A|iOS)?\//],
  ['Opera', /OPR\//],
  ['Firefox', /(Firefox|FxiOS)\//],
  ['Chrome', /(Chrome|CriOS|HeadlessChrome)\//],
  ['Safari', /Safari\//],
]

const SYSTEMS: readonly [string, RegExp][] = [
  ['an iPhone', /iPhone/],
  ['an iPad', /iPad/],
  ['Android', /Android/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X|Macintosh/],
  ['ChromeOS', /CrOS/],
  ['Linux', /Linux|X11/],
]

export const PASSWORD_HINT = 'At least 12 characters. A few random words work well.'
