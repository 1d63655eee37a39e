/** How the server is doing: whether all is well and, where it is not, why and what to do. */

import { Button, Code } from '../ui/controls.tsx'
import { Count, Fact, State, TimeFact, When } from '../ui/figure.tsx'
import { announce, Empty, FactsRoom, RowsRoom, tell, Unread } from '../ui/notice.tsx'
import { Headline } from '../ui/resource.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { makeBackup, useBackups, useStatus } from './data.ts'
import { SettingsFrame } from './page.tsx'
import { toBytes } from './words.ts'

type Status = NonNullable<ReturnType<typeof useStatus>['data']>

export function ServerPage() {
  const { data: status, problem, reload } = useStatus()
  return (
    <SettingsFrame title="Server">
      <Unread of={status} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {status !== null && (
        <div class="sections">
          <Wellbeing of={status} />
          <Headline
            of={[
              ['requests under way', <Count key="requests" count={status.in_flight} />],
              ['memory for them', toBytes(status.buffered_bytes)],
              ['rows that wait for the database', <Count key="rows" count={status.pending_records} />],
            ]}
          />
          <section class="panel narrow">
            <h2>Facts</h2>
            <Facts of={status} />
          </section>
        </div>
      )}
    </SettingsFrame>
  )
}

const READINESS = {
  ok: ['good', 'All is well'],
  degraded: ['warn', 'It answers, and not all is well'],
  starting: ['warn', 'It is starting'],
  draining: ['warn', 'It is stopping'],
  ledger_unavailable: ['bad', 'It takes no requests'],
} as const

const TAKES_REQUESTS = ['good', 'It takes requests'] as const

const CHECK_KINDS = { ok: 'good', warning: 'warn', problem: 'bad' } as const

function Wellbeing({ of: { readiness, checks } }: { of: Status }) {
  const found = checks.filter(({ status }) => status !== 'ok')
  const [kind, word] = readiness === 'ok' && found.length > 0 ? TAKES_REQUESTS : READINESS[readiness]
  return (
    <section class="drawer-part" aria-live="polite">
      <h2>
        <State kind={kind}>{word}</State>
      </h2>
      {found.length > 0 && (
        <ul class="drawer-part">
          {found.map(({ name, status, message }) => (
            <li key={name + message}>
              <State kind={CHECK_KINDS[status]}>{status}</State> {message}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const Facts = ({ of: { version, url, started_ms, disk, backups, lost } }: { of: Status }) => (
  <dl class="facts">
    <Fact name="Version">{version}</Fact>
    <Fact name="Serves">
      <code>{url}</code>
    </Fact>
    <TimeFact name="Since" ms={started_ms} />
    {lost !== null && (
      <Fact name="Lost">
        <State kind="bad">the {lost} is gone from the data folder</State>
      </Fact>
    )}
    <Fact name="Data">
      {disk === null ? (
        'not measured yet'
      ) : (
        <p>
          {toBytes(disk.used_bytes)}
          {disk.budget_bytes !== null && ` of ${toBytes(disk.budget_bytes)}`}, {toBytes(disk.free_bytes)} free on the
          disk
        </p>
      )}
    </Fact>
    <Fact name="Backups">
      {backups.newest_ms === null ? (
        'none yet'
      ) : (
        <>
          the newest <When ms={backups.newest_ms} />
        </>
      )}
      {backups.failed !== null && <p class="state bad">{backups.failed}</p>}
    </Fact>
  </dl>
)

type Backup = NonNullable<ReturnType<typeof useBackups>['data']>['backups'][number]

const KINDS = {
  made: 'made by hand',
  scheduled: 'scheduled',
  before_migration: 'before an upgrade',
  other: 'put there',
} as const

const COLUMNS: readonly Column<Backup>[] = [
  {
    name: 'name',
    title: 'File',
    cell: ({ name }) => (
      <a class="row-link" href={`/admin/api/backups/${encodeURIComponent(name)}`} download={name}>
        {name}
      </a>
    ),
  },
  { name: 'kind', title: 'How', cell: ({ kind }) => KINDS[kind] },
  { name: 'size', title: 'Size', isFigure: true, sortBy: ({ bytes }) => bytes, cell: ({ bytes }) => toBytes(bytes) },
  {
    name: 'made',
    title: 'Made',
    isFigure: true,
    sortBy: ({ made_ms }) => made_ms,
    cell: ({ made_ms }) => <When ms={made_ms} />,
  },
]

export function BackupsPage() {
  const { data, problem, reload } = useBackups()
  const isMaking = data !== null && data.making !== null
  const make = () =>
    makeBackup().then(
      () => announce('A backup is being made.'),
      (error: Error) => tell(error.message, 'bad'),
    )
  const button = (
    <Button kind="main" icon="plus" onClick={make} disabled={isMaking} data-new>
      {isMaking ? 'Being made …' : 'Make a backup'}
    </Button>
  )
  return (
    <SettingsFrame title="Backups" actions={data !== null && data.backups.length > 0 && button}>
      <Unread of={data} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {data?.failed && (
        <p class="note">
          <span class="state bad">The last one could not be made</span> {data.failed}
        </p>
      )}
      {data !== null &&
        (data.backups.length === 0 ? (
          <Empty title="No backups yet">
            <p>
              A backup is one file with everything: keys, teams, people, models and all that is on record. The file{' '}
              <code>secret</code> of the data folder is not in it: keep that beside it.
            </p>
            {button}
            <p class="dim">
              To have one made every day, set <code>backup</code> to 24h. On the command line:
            </p>
            <Code label="Command that makes a backup" text="tollgate backup tollgate.sqlite" />
          </Empty>
        ) : (
          <>
            <Table caption="Backups" columns={COLUMNS} rows={data.backups} idOf={({ name }) => name} />
            <p class="list-foot">
              A press downloads it. Hashes of keys and the names of people are in it: keep it as you keep secrets. With{' '}
              <code>tollgate restore</code> it is put in place.
            </p>
          </>
        ))}
    </SettingsFrame>
  )
}
