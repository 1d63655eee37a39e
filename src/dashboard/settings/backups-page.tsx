/** Backups, for owners: those that there are, to be taken away, and a new one. */

import { Button } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { When } from '../ui/figure.tsx'
import { announce, Empty, tell } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { RowsRoom, Unread } from '../ui/unread.tsx'
import { makeBackup, useBackups } from './data.ts'
import { SettingsFrame } from './frame.tsx'
import { toBytes } from './words.ts'

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
