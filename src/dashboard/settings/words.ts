/** Texts of settings. */

/** Keeps the server's order. */
export const toGroups = <Setting extends { group: string }>(settings: readonly Setting[]) =>
  [...Map.groupBy(settings, ({ group }) => group)].map(([title, ofGroup]) => ({ title, settings: ofGroup }))

interface Placed {
  name: string
  from: 'flag' | 'environment' | 'setting' | 'default'
  variable: string
}

/** The source of the current value. */
export const toPlace = ({ name, from, variable }: Placed): string =>
  ({ flag: `flag --${name}`, environment: `variable ${variable}`, setting: 'set here', default: 'default' })[from]

/** Such as `12.4 MiB`, by powers of 1,024, as in `--disk-budget` and findings. */
export function toBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  for (const [unit, size] of UNITS) {
    const amount = bytes / size
    if (amount < 999.5) return `${amount < 99.95 ? amount.toFixed(1).replace(/\.0$/, '') : amount.toFixed(0)} ${unit}`
  }
  return `${(bytes / 2 ** 40).toFixed(1)} TiB`
}

const UNITS = [
  ['KiB', 2 ** 10],
  ['MiB', 2 ** 20],
  ['GiB', 2 ** 30],
] as const

/** @param origin such as `https://gateway.example.com` */
export const toCurl = (origin: string, token: string): string =>
  [`curl ${origin}/admin/api/keys \\`, `  -H 'Authorization: Bearer ${token}'`].join('\n')
