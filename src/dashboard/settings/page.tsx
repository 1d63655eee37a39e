/** What the server is set to: what is in force, where that is from and, for owners, changing it. */
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { ButtonLink } from '../ui/button.tsx'
import { RowsRoom, Unread } from '../ui/unread.tsx'
import { type Setting, useSettings } from './data.ts'
import { SettingDialog } from './dialog.tsx'
import { SettingsFrame } from './frame.tsx'
import { toPlace, toTopics } from './words.ts'

export function SettingsPage() {
  const { data: settings, problem, reload } = useSettings()
  const waiting = settings?.filter(({ pending }) => pending).length ?? 0
  const topics = toTopics(settings ?? [])
  const open = topics.flatMap((topic) => topic.settings).find(({ name }) => name === query.value.get('setting'))
  return (
    <SettingsFrame title="Settings" actions={<ButtonLink href={toHref('/reference')}>API reference</ButtonLink>}>
      <Unread of={settings} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {waiting > 0 && (
        <p class="note">
          <span class="state warn">{waiting === 1 ? 'One change waits' : `${waiting} changes wait`}</span> for the next
          start of the server.
        </p>
      )}
      <div class="sections">
        {topics.map(({ title, settings: ofTopic }) => (
          <section key={title}>
            <h2>{title}</h2>
            <ul class="settings">
              {ofTopic.map((setting) => (
                <Line key={setting.name} of={setting} />
              ))}
            </ul>
          </section>
        ))}
      </div>
      {open && <SettingDialog key={open.name} of={open} onClose={() => setQuery({ setting: null })} />}
    </SettingsFrame>
  )
}

const Line = ({ of: setting }: { of: Setting & { what: string } }) => (
  <li>
    <a class="row-link" href={toHrefWith({ setting: setting.name })}>
      {setting.name}
    </a>
    <span class="what dim">{setting.what}</span>
    <span class="value">
      {setting.value === null ? <span class="dim">none</span> : <code>{setting.value}</code>}
      {setting.pending && (
        <>
          {' '}
          <span class="state warn">
            then <code>{setting.stored ?? setting.default ?? 'none'}</code>
          </span>
        </>
      )}
    </span>
    <span class="from dim">{toPlace(setting)}</span>
  </li>
)
