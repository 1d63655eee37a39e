/** The settings of a server in words, by topic. Pure. */

interface Topic {
  title: string
  /** By name: what it says. */
  settings: Readonly<Record<string, string>>
}

export const TOPICS: readonly Topic[] = [
  {
    title: 'Records and backups',
    settings: {
      keep: 'How long requests stay on record one by one. Their sums stay.',
      'audit-retention': 'How long entries of the audit log are kept.',
      backup: 'How often a backup is made.',
      'backup-keep': 'How many of those backups are kept.',
      disk: 'What the data folder may take of the disk. It warns at nine tenths.',
      journal: 'What rows may take of the disk that the database has not taken yet.',
      durability: 'What a row on record survives: a crash of the process, or of the power.',
    },
  },
  {
    title: 'Requests',
    settings: {
      retries: 'How often the targets of a request are tried again when all have failed.',
      'max-in-flight': 'Requests under way at once. More are refused.',
      'max-buffered': 'Memory for requests under way. More are refused.',
      share: 'Most of both that one key holds while others are there.',
      upload: 'How long the body of a request may take to arrive.',
      'slow-reader': 'How long a client may leave an answer unread.',
      leave: 'How long a call is read on for what it used once its client has left.',
      heartbeat: 'How often a silent stream says that it lives.',
      'max-event': 'Size of one event of an upstream. A longer one ends its stream.',
    },
  },
  {
    title: 'Addresses',
    settings: {
      host: 'Address that it listens on.',
      port: 'Port that it listens on.',
      'public-url': 'Addresses that the dashboard is reached under, beside this machine itself.',
      'cors-origin': 'Pages of other sites that may call models.',
      'trusted-proxy': 'Proxies that are believed where a client is.',
    },
  },
  {
    title: 'The server itself',
    settings: {
      discover: 'Whether an empty installation adds the model servers of this machine by itself.',
      probe: 'How often upstreams are asked, for free, whether they are ready.',
      'watch-catalog': 'Whether the catalogue is applied again when its file, or one of models.d, has changed.',
      drain: 'How long a stop waits for answers under way.',
      'log-level': 'What the log tells. None: whatever suits the place that it goes to.',
      dashboard: 'Whether these pages are served.',
    },
  },
]

/** Those that no topic has come last, under `Others`. */
export function toTopics<Setting extends { name: string }>(settings: readonly Setting[]) {
  const byName = new Map(settings.map((setting) => [setting.name, setting]))
  const topics = TOPICS.map(({ title, settings: words }) => ({
    title,
    settings: Object.entries(words).flatMap(([name, what]) => {
      const setting = byName.get(name)
      byName.delete(name)
      return setting ? [{ ...setting, what }] : []
    }),
  }))
  const others = [...byName.values()].map((setting) => ({ ...setting, what: '' }))
  return [...topics, { title: 'Others', settings: others }].filter(({ settings }) => settings.length > 0)
}

interface Placed {
  name: string
  from: 'flag' | 'environment' | 'setting' | 'default'
  variable: string
}

/** Where the value in force is from. */
export const toPlace = ({ name, from, variable }: Placed): string =>
  ({ flag: `the flag --${name}`, environment: `the variable ${variable}`, setting: 'set here', default: 'default' })[
    from
  ]

/** `12.4 MB`, by thousands, as disks are sold. */
export function toBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  for (const [unit, size] of UNITS) {
    const amount = bytes / size
    if (amount < 999.5) return `${amount < 99.95 ? amount.toFixed(1).replace(/\.0$/, '') : amount.toFixed(0)} ${unit}`
  }
  return `${(bytes / 1e12).toFixed(1)} TB`
}

const UNITS = [
  ['kB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
] as const

/** @param origin such as `https://gateway.example.com` */
export const toCurl = (origin: string, token: string): string =>
  [`curl ${origin}/admin/api/keys \\`, `  -H 'Authorization: Bearer ${token}'`].join('\n')
