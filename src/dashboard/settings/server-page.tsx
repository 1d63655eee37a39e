/** Server health and backups. */
import { useEffect, useRef } from 'preact/hooks'
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
              ['requests in flight', <Count key="requests" count={status.in_flight} />],
              ['memory for requests', toBytes(status.buffered_bytes)],
              ['pending ledger rows', <Count key="rows" count={status.pending_records} />],
            ]}
          />
          <section class="panel narrow">
            <h2>Details</h2>
            <Facts of={status} />
          </section>
        </div>
      )}
    </SettingsFrame>
  )
}

const READINESS = {
  ok: ['good', 'Healthy'],
  degraded: ['warn', 'Running with problems'],
  starting: ['warn', 'Starting'],
  draining: ['warn', 'Shutting down'],
  ledger_unavailable: ['bad', 'Not accepting requests'],
} as const

const TAKES_REQUESTS = ['good', 'Running'] as const

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
    <Fact name="URL">
      <code>{url}</code>
    </Fact>
    <TimeFact name="Started" ms={started_ms} />
    {lost !== null && (
      <Fact name="Missing">
        <State kind="bad">the {lost} is missing from the data folder</State>
      </Fact>
    )}
    <Fact name="Disk">
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
          latest <When ms={backups.newest_ms} />
        </>
      )}
      {backups.failed !== null && <p class="state bad">{backups.failed}</p>}
    </Fact>
  </dl>
)

type Backup = NonNullable<ReturnType<typeof useBackups>['data']>['backups'][number]

const KINDS = {
  made: 'manual',
  scheduled: 'scheduled',
  before_migration: 'before an upgrade',
  other: 'copied manually',
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
  { name: 'kind', title: 'Type', cell: ({ kind }) => KINDS[kind] },
  { name: 'size', title: 'Size', isFigure: true, sortBy: ({ bytes }) => bytes, cell: ({ bytes }) => toBytes(bytes) },
  {
    name: 'made',
    title: 'Created',
    isFigure: true,
    sortBy: ({ made_ms }) => made_ms,
    cell: ({ made_ms }) => <When ms={made_ms} />,
  },
]

export function BackupsPage() {
  const { data, problem, reload } = useBackups()
  const isMaking = data !== null && data.making !== null
  const wasMaking = useRef(false)
  useEffect(() => {
    if (wasMaking.current && !isMaking) announce(data?.failed ? `Backup failed. ${data.failed}` : 'Backup created.')
    wasMaking.current = isMaking
  }, [isMaking])
  const make = () =>
    makeBackup().then(
      () => announce('Creating a backup.'),
      (error: Error) => tell(error.message, 'bad'),
    )
  const button = (
    <Button kind="main" icon="plus" onClick={make} aria-disabled={isMaking} data-new>
      {isMaking ? 'Creating…' : 'Create backup'}
    </Button>
  )
  return (
    <SettingsFrame title="Backups" actions={data !== null && data.backups.length > 0 && button}>
      <Unread of={data} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {data?.failed && (
        <p class="note">
          <span class="state bad">Last backup failed.</span> {data.failed}
        </p>
      )}
      {data !== null &&
        (data.backups.length === 0 ? (
          <Empty title="No backups yet">
            <p>
              A backup contains keys, teams, users, models, and request history. It doesn't include the encryption key:
              back up the file <code>secret</code> of the data folder too.
            </p>
            {button}
            <p class="dim">
              For daily backups, set <code>backup-every</code> to 24h. Or create one from the command line:
            </p>
            <Code label="Command that creates a backup" text="tollgate backup tollgate.sqlite" />
          </Empty>
        ) : (
          <>
            <Table caption="Backups" columns={COLUMNS} rows={data.backups} idOf={({ name }) => name} />
            <p class="list-foot">
              Click a file to download it. It contains key hashes and user names; store it securely. To restore it, stop
              the server and run <code>tollgate restore FILE</code>.
            </p>
          </>
        ))}
    </SettingsFrame>
  )
}
