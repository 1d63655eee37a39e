/** What the server is set to: what is in force, where that is from and, for owners, changing it. */
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { ButtonLink } from '../ui/button.tsx'
import { RowsRoom, Unread } from '../ui/unread.tsx'
import { type Setting, useSettings } from './data.ts'
import { SettingDialog } from './dialog.tsx'
import { SettingsFrame } from './frame.tsx'
import { toGroups, toPlace } from './words.ts'

export function SettingsPage() {
  const { data: settings, problem, reload } = useSettings()
  const waiting = settings?.filter(({ pending }) => pending).length ?? 0
  const open = settings?.find(({ name }) => name === query.value.get('setting'))
  return (
    <SettingsFrame title="Settings" actions={<ButtonLink href={toHref('/reference')}>API reference</ButtonLink>}>
      <Unread of={settings} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {waiting > 0 && (
        <p class="note">
          <span class="state warn">
            {waiting === 1 ? '1 change takes' : `${waiting} changes take`} effect after a restart.
          </span>
        </p>
      )}
      <div class="sections">
        {toGroups(settings ?? []).map(({ title, settings: ofGroup }) => (
          <section key={title}>
            <h2>{title}</h2>
            <ul class="settings">
              {ofGroup.map((setting) => (
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

const Line = ({ of: setting }: { of: Setting }) => (
  <li>
    <a class="row-link" href={toHrefWith({ setting: setting.name })}>
      {setting.name}
    </a>
    <span class="what dim">{setting.description}.</span>
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
